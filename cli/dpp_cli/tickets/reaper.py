"""Operator commands: the reaper of stale tickets (TIX-1 … TIX-5). What it does is in `dpp.tickets.reap`."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.table import Table

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings
from dpp.tickets import reports, store
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp.tickets.errors import NoReportYet, SnapshotNotFound
from dpp.tickets.reap import Reaped, ReapEffects, ReapOrder, reap
from dpp.tickets.report import ReaperReport
from dpp.tickets.staleness import (
    MAX_MAX_CLEAN,
    MAX_THRESHOLD_SECONDS,
    MIN_THRESHOLD_SECONDS,
)
from dpp_cli.errors import StackError
from dpp_cli.operator.output import moment, print_table, print_values, say
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows, opened_rows
from dpp_cli.tickets.commands import AsArray, AsJson, StaleSettings, print_tickets, tickets_app

__all__ = ["tickets_app"]  # with these commands, whole

Threshold = Annotated[
    int | None,
    typer.Option(
        min=MIN_THRESHOLD_SECONDS,
        max=MAX_THRESHOLD_SECONDS,
        help="Stale is what nobody touched for longer; the deployment's own if not given.",
        show_default=False,
    ),
]


class _ReapSettings(PostgresSettings, ReportsSettings, ReaperSettings):
    """The rows, the bucket that keeps the copies of reports, and the reaper's rules."""


@tickets_app.command("stale")
def show_stale(
    threshold_seconds: Threshold = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="The oldest so many.")] = 50,
    as_json: AsArray = False,
) -> None:
    """Show what the reaper would end next, the oldest first."""
    with connected_rows(StaleSettings) as (connection, settings):
        rules = settings.rules.asked(threshold_seconds)
        backlog = store.backlog(connection, rules)
        found = store.page_stale(connection, rules, limit)
    if as_json or found:
        print_tickets(found, settings.zone, as_json=as_json)
    say(
        f"{backlog.stale} of {backlog.in_progress} in progress were not touched for {rules.threshold_seconds} s"
        + (": so many that the reaper ends none" if rules.breaker.trips(backlog, 0) else "")
    )


@tickets_app.command("reap")
def run_reaper(
    *,
    threshold_seconds: Threshold = None,
    max_clean: Annotated[
        int | None,
        typer.Option(min=1, max=MAX_MAX_CLEAN, help="End no more than this.", show_default=False),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Report; change nothing, leave no report.")] = False,
    confirm: Annotated[
        int, typer.Option(min=0, metavar="N", help="So many may be stale for all that the breaker says.")
    ] = 0,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """End what is stale, FAILED, and report it. Exit code 1 where so many are stale that none was ended."""
    asked_by = actor(who)
    with opened_rows(_ReapSettings) as rows:
        settings = rows.settings
        rules = settings.rules.asked(threshold_seconds, max_clean)
        storage = ObjectStore(settings.reports_bucket, lambda: rows.at.client("s3"))
        order = ReapOrder(asked_by, rules, confirm, dry_run)
        reaped = reap(order, ReapEffects(rows.database, storage, settings.zone))
    if as_json:
        typer.echo(reaped.report.to_json())
    else:
        _print_report(reaped.report, settings.zone)
    _tell(reaped, order, threshold_seconds)
    if reaped.breaker_tripped:
        raise typer.Exit(1)


@tickets_app.command("report")
def show_report(
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An earlier one: reaper_YYYYMMDD_HHMMSS.json.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the reaper's newest report, as its row has it."""
    with connected_rows(RowSettings) as (connection, settings):
        try:
            if snapshot is None:
                report = reports.latest(connection).report
            else:
                report = reports.of_snapshot(connection, snapshot).report
        except NoReportYet:
            raise StackError("the reaper has not run yet: `dpp tickets reap` runs it") from None
        except SnapshotNotFound:
            raise StackError(f"there is no snapshot {snapshot}") from None
    if as_json:
        typer.echo(report.to_json())
    else:
        _print_report(report, settings.zone)


def _print_report(report: ReaperReport, zone: ZoneInfo) -> None:
    values = {
        "asof": report.asof.isoformat(),
        "decision": report.decision,
        "threshold": f"{report.threshold_seconds} s",
        "stale": str(report.stale_count),
        "cleaned": str(report.cleaned_count),
        "evidence": ", ".join(report.evidence_refs) or None,
    }
    print_values(values)
    if report.cleaned_items:
        table = Table("ticket", "type", "last touched", box=None, header_style="dim", pad_edge=False)
        table.columns[0].no_wrap = True
        for one in report.cleaned_items:
            table.add_row(str(one.request_id), one.request_type, moment(one.last_processed_at, zone))
        print_table(table)


def _tell(reaped: Reaped, order: ReapOrder, threshold_seconds: int | None) -> None:
    """What the report itself doesn't say."""
    if reaped.breaker_tripped:
        backlog = reaped.backlog
        same = "" if threshold_seconds is None else f" --threshold-seconds {threshold_seconds}"
        say(
            f"{backlog.stale} of {backlog.in_progress} in progress are stale: so many that"
            f" {'a run would end none' if order.dry_run else 'none was ended'}. See why (`dpp tickets stale{same}`);"
            f" if they are to end: `dpp tickets reap{same} --confirm {backlog.stale}`"
        )
    elif order.dry_run:
        say(f"a run would end {min(reaped.backlog.stale, order.rules.max_clean)}; nothing was changed")
    elif not reaped.published:
        say("S3 didn't answer: the report stands in Postgres, and the next run writes its copies")
