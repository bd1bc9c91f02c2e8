"""Operator commands: events of authentication errors, and a new try for those that are dead (AUTH-4, AUTH-8)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer
from rich.table import Table

from dpp.auth_errors import store
from dpp.auth_errors.api.contract import EventView
from dpp.auth_errors.config import KnownWakeQueueSettings
from dpp.auth_errors.machine import OutboxStatus, ProcessedStatus
from dpp.auth_errors.model import OutboxEntry
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.publish import Waker
from dpp.auth_errors.outbox.redrive import Redriven, Standing, redrive, redrive_all
from dpp.auth_errors.outbox.tables import Lag
from dpp.platform.aws.queue import Queue
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import Reach
from dpp_cli.operator.output import ago, as_array, plain, print_table, say
from dpp_cli.operator.rows import RowSettings, connected_rows, opened_rows
from dpp_cli.operator.tenants import console

_SAID = {
    Standing.DEAD: "revived",
    Standing.HANDLED: "was handled; left",
    Standing.UNDER_WAY: "is under way; left",
    Standing.UNKNOWN: "is no event of this outbox",
}


class WakeSettings(RowSettings, KnownWakeQueueSettings):
    """The rows, and the queue that wakes the publisher where one is known."""


class _EntryView(EventView):
    """An event by itself, which has to say whose it is."""

    auth_error_id: UUID


def waker_of[Wanted: WakeSettings](at: Reach[Wanted]) -> Waker:
    """What wakes the publisher of where the rows are; nothing where its queue isn't known."""
    url = at.settings.known_wake_queue_url
    return Waker(None if url is None else Queue(url, lambda: at.client("sqs")))


def show_outbox(
    dead: Annotated[bool, typer.Option("--dead", help="Only what died, with its reason.")] = False,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only what is on its way.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The oldest so many of each.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """Show which events wait, for how long, and which died of what."""
    both = dead == waiting
    with connected_rows(RowSettings) as (connection, _):
        ids = {
            *(tables.dead_ids(connection, limit) if dead or both else ()),
            *(tables.waiting_ids(connection, limit) if waiting or both else ()),
        }
        found = tables.entries(connection, sorted(ids))
        lag, now = tables.lag(connection), store.clock(connection)
    if as_json:
        typer.echo(as_array(_EntryView.model_validate(entry, from_attributes=True) for entry in found))
        return
    if found:
        print_entries(found, now)
    say(_told(lag))
    if lag.dead_in_outbox or lag.dead_in_ledger:
        say("find out why they died, then: `dpp auth-errors redrive ID…`, or `--all-dead`")


def redrive_events(
    outbox_ids: Annotated[
        list[int] | None,
        typer.Argument(metavar="OUTBOX_ID…", min=1, help="As `outbox` shows them.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all-dead", help="Every dead event, up to --limit.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="No more than this.")] = 10_000,
) -> None:
    """Give dead events all their tries again: those that were never published, and those that nobody could handle.

    Safe to repeat. Exit code 1 if one that was named is not dead.
    """
    if bool(outbox_ids) == every:
        raise StackError("name events, or say --all-dead" + (": not both" if every else ""))
    with opened_rows(WakeSettings) as rows:
        waker = waker_of(rows.at)
        if every:
            done = _tell(redrive_all(rows.database, waker, limit))
        else:
            done = _tell(redrive(outbox_ids or (), rows.database, waker))
    if any(one.revived for one in done):
        say("the publisher sends them within a minute; `dpp auth-errors outbox` shows what becomes of them")
    if not every and not all(one.revived for one in done):
        raise typer.Exit(1)


def print_entries(entries: Sequence[OutboxEntry], now: datetime, *, of_one_error: bool = False) -> None:
    """Events as a table: where each stands, since when or until when, and what went wrong last."""
    whose = () if of_one_error else ("of error",)
    names = ("event", *whose, "type", "stands", "age", "tries", "last failure")
    table = Table(*names, box=None, header_style="dim", pad_edge=False)
    table.columns[-2].justify = "right"
    for column in table.columns[:-2]:
        column.no_wrap = True
    for one in entries:
        kind = one.event_type.removeprefix("auth.error.")
        tries = one.attempts if one.attempts else one.retry_count
        failure = one.processed_error or one.last_error or ""
        ids = (str(one.outbox_id), *(str(one.auth_error_id) for _ in whose))
        cells = (kind, _stands(one, now), ago(one.created_at, now), str(tries))
        table.add_row(*ids, *cells, plain(failure))
    print_table(table)


def _stands(entry: OutboxEntry, now: datetime) -> str:
    """In the words of outbox and ledger, whichever has it now."""
    if entry.status is not OutboxStatus.PUBLISHED and entry.processed_status is None:
        return f"{entry.status}, {_due(entry.next_retry_at, now)}" if entry.next_retry_at else entry.status
    if entry.processed_status is None:
        return "PUBLISHED, not yet received"
    if entry.processed_status is ProcessedStatus.RETRY_WAIT and entry.processed_next_retry_at:
        return f"RETRY_WAIT, {_due(entry.processed_next_retry_at, now)}"
    dead_before = entry.status is OutboxStatus.DEAD
    return "DEAD in the outbox" if dead_before else f"received, {entry.processed_status}"


def _due(at: datetime, now: datetime) -> str:
    seconds = int((at - now).total_seconds())
    return f"due in {seconds} s" if seconds > 0 else f"due for {ago(at, now)}"


def _told(lag: Lag) -> str:
    oldest = f", the oldest due for {lag.oldest_due_seconds:.0f} s" if lag.unpublished else ""
    return (
        f"{lag.unpublished} to be published{oldest}; {lag.waiting_for_retry} wait for a retry;"
        f" dead: {lag.dead_in_outbox} never published, {lag.dead_in_ledger} that nobody could handle"
    )


def _tell(redriven: Iterator[Redriven]) -> list[Redriven]:
    """Carry it out, telling each event as it is done, so that a failure half-way hides nothing."""
    done: list[Redriven] = []
    try:
        for one in redriven:
            done.append(one)
            said = _SAID[one.standing]
            console.print(f"event {one.outbox_id}  {said}", highlight=False, soft_wrap=True)
    finally:
        counts = Counter(one.revived for one in done)
        console.print(f"{counts[True]} revived" if done else "nothing is dead", highlight=False)
    return done
