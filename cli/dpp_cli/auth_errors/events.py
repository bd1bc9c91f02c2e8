"""Operator commands: events of authentication errors, and the redrive of dead ones (AUTH-4, AUTH-8)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated
from uuid import UUID

import typer

from dpp.auth_errors import store
from dpp.auth_errors.api.contract import EventView
from dpp.auth_errors.config import OptionalWakeQueueSettings
from dpp.auth_errors.machine import OutboxStatus, ProcessedStatus
from dpp.auth_errors.model import OutboxEntry
from dpp.auth_errors.outbox import tables
from dpp.auth_errors.outbox.publish import Waker
from dpp.auth_errors.outbox.redrive import DeliveryStatus, Redriven, redrive, redrive_all
from dpp.auth_errors.outbox.tables import Lag
from dpp.platform.aws.queue import Queue
from dpp_cli.errors import StackError
from dpp_cli.operator.connect import Reach
from dpp_cli.operator.output import ago, as_array, print_note, print_rows
from dpp_cli.operator.rows import RowSettings, connected_rows, opened_rows
from dpp_cli.operator.tenants import console

_RESULTS = {
    DeliveryStatus.DEAD: "revived",
    DeliveryStatus.HANDLED: "already handled; left",
    DeliveryStatus.UNDER_WAY: "in progress; left",
    DeliveryStatus.UNKNOWN: "not in this outbox",
}


class WakeSettings(RowSettings, OptionalWakeQueueSettings):
    """Settings of the database and, if known, of the publisher's wake queue."""


class _EntryView(EventView):
    """An event with the id of its error."""

    auth_error_id: UUID


def waker_of[Needed: WakeSettings](at: Reach[Needed]) -> Waker:
    """Return a waker for the deployment's publisher; it does nothing if the wake queue is not known."""
    url = at.settings.known_wake_queue_url
    return Waker(None if url is None else Queue(url, lambda: at.client("sqs")))


def show_outbox(
    dead: Annotated[bool, typer.Option("--dead", help="Only dead events, with their reason.")] = False,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only events that wait to be sent or handled.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many of each, oldest first.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False,
) -> None:
    """List waiting events with their age, and dead events with their last failure."""
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
    print_note(_summary(lag))
    if lag.dead_in_outbox or lag.dead_in_ledger:
        print_note("fix the cause, then: `dpp auth-errors redrive OUTBOX_ID…`, or `--all-dead`")


def redrive_events(
    outbox_ids: Annotated[
        list[int] | None, typer.Argument(metavar="OUTBOX_ID…", min=1, help="Ids from `outbox`.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all-dead", help="Every dead event, up to --limit.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Revive at most this many.")] = 10_000,
) -> None:
    """Give dead events all their attempts again, whether publishing or handling failed.

    Safe to repeat. Exit code 1 if a named event is not dead.
    """
    if bool(outbox_ids) == every:
        raise StackError("give either event ids or --all-dead" + (", not both" if every else ""))
    with opened_rows(WakeSettings) as rows:
        waker = waker_of(rows.at)
        if every:
            done = _carry_out(redrive_all(rows.database, waker, limit))
        else:
            done = _carry_out(redrive(outbox_ids or (), rows.database, waker))
    if any(one.revived for one in done):
        print_note("the publisher sends them within a minute; follow them with `dpp auth-errors outbox`")
    if not every and not all(one.revived for one in done):
        raise typer.Exit(1)


def print_entries(entries: Sequence[OutboxEntry], now: datetime, *, of_one_error: bool = False) -> None:
    """Print events as a table with state, age, attempts and last failure."""
    error_column = () if of_one_error else ("of error",)
    names = ("event", *error_column, "type", "state", "age", "attempts", "last failure")
    rows = (
        (
            *(str(one.outbox_id), *(str(one.auth_error_id) for _ in error_column)),
            *(one.event_type.removeprefix("auth.error."), _state(one, now), ago(one.created_at, now)),
            *(str(one.attempts or one.retry_count), one.processed_error or one.last_error or ""),
        )
        for one in entries
    )
    print_rows(names, rows, whole=names[:-2], right=("attempts",))


def _state(entry: OutboxEntry, now: datetime) -> str:
    """Return the event's state in the outbox or in the consumer's ledger, whichever holds it now."""
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


def _summary(lag: Lag) -> str:
    oldest = f" (oldest due for {lag.oldest_due_seconds:.0f} s)" if lag.unpublished else ""
    return (
        f"{lag.unpublished} to publish{oldest}; {lag.waiting_for_retry} waiting for a retry;"
        f" dead: {lag.dead_in_outbox} not published, {lag.dead_in_ledger} not handled"
    )


def _carry_out(redriven: Iterator[Redriven]) -> list[Redriven]:
    """Carry it out and print each event as it is done, so that a failure in the middle hides nothing."""
    done: list[Redriven] = []
    try:
        for one in redriven:
            done.append(one)
            result = _RESULTS[one.status_before]
            console.print(f"event {one.outbox_id}  {result}", highlight=False, soft_wrap=True)
    finally:
        counts = Counter(one.revived for one in done)
        console.print(f"{counts[True]} revived" if done else "no dead events", highlight=False)
    return done
