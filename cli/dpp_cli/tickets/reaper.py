"""Operator commands: the reaper of stale tickets (TIX-1 … TIX-5), implemented by `dpp.tickets.reap`."""

from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings
from dpp.tickets import reports, store
from dpp.tickets.config import ReaperSettings, ReportsSettings
from dpp.tickets.errors import NoReportYet, SnapshotNotFound
from dpp.tickets.reap import Reaped, ReapEffects, ReapRequest, reap
from dpp.tickets.report import ReaperReport
from dpp.tickets.staleness import MAX_MAX_CLEAN, MAX_THRESHOLD_SECONDS, MIN_THRESHOLD_SECONDS
from dpp_cli.errors import StackError
from dpp_cli.operator.output import moment, print_note, print_rows, print_values
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows, opened_rows
from dpp_cli.tickets.commands import AsArray, AsJson, StaleSettings, print_tickets, tickets_app

__all__ = ["tickets_app"]  # complete only with the commands below

Threshold = Annotated[
    int | None,
    typer.Option(
        min=MIN_THRESHOLD_SECONDS,
        max=MAX_THRESHOLD_SECONDS,
        help="A ticket is stale if it was not processed for longer. Default: the deployment's setting.",
        show_default=False,
    ),
]


class _ReapSettings(PostgresSettings, ReportsSettings, ReaperSettings):
    """Settings of the database, the reports bucket and the reaper's rules."""


@tickets_app.command("stale")
def show_stale(
    threshold_seconds: Threshold = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Show at most this many, oldest first.")] = 50,
    as_json: AsArray = False,
) -> None:
    """List the tickets that the reaper would end next, oldest first."""
    with connected_rows(StaleSettings) as (connection, settings):
        rules = settings.rules.with_overrides(threshold_seconds)
        backlog = store.backlog(connection, rules)
        found = store.page_stale(connection, rules, limit)
    if as_json or found:
        print_tickets(found, settings.zone, as_json=as_json)
    print_note(
        f"{backlog.stale} of {backlog.in_progress} tickets in progress are stale"
        f" (not processed for {rules.threshold_seconds} s)"
        + ("; too many: the reaper ends none without --confirm" if rules.breaker.trips(backlog, 0) else "")
    )


@tickets_app.command("reap")
def run_reaper(
    *,
    threshold_seconds: Threshold = None,
    max_clean: Annotated[
        int | None, typer.Option(min=1, max=MAX_MAX_CLEAN, help="End at most this many.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Print what would happen; change nothing and store no report.")] = False,
    confirm: Annotated[
        int, typer.Option(min=0, metavar="N", help="Allow up to this many stale tickets, overriding the breaker.")
    ] = 0,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """End stale tickets as FAILED and store a report. Exit code 1 if the breaker stopped it."""
    asked_by = actor(who)
    with opened_rows(_ReapSettings) as rows:
        settings = rows.settings
        rules = settings.rules.with_overrides(threshold_seconds, max_clean)
        storage = ObjectStore(settings.reports_bucket, lambda: rows.at.client("s3"))
        order = ReapRequest(asked_by, rules, confirm, dry_run)
        reaped = reap(order, ReapEffects(rows.database, storage, settings.zone))
    if as_json:
        typer.echo(reaped.report.to_json())
    else:
        _print_report(reaped.report, settings.zone)
    _print_notes(reaped, order, threshold_seconds)
    if reaped.breaker_tripped:
        raise typer.Exit(1)


@tickets_app.command("report")
def show_report(
    snapshot: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An earlier report: reaper_YYYYMMDD_HHMMSS.json.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the reaper's newest report, from its row."""
    with connected_rows(RowSettings) as (connection, settings):
        try:
            if snapshot is None:
                report = reports.latest(connection).report
            else:
                report = reports.of_snapshot(connection, snapshot).report
        except NoReportYet:
            raise StackError("the reaper has not run yet; run it with `dpp tickets reap`") from None
        except SnapshotNotFound:
            raise StackError(f"snapshot {snapshot} does not exist") from None
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
        rows = (
            (str(one.request_id), one.request_type, moment(one.last_processed_at, zone)) for one in report.cleaned_items
        )
        print_rows(("ticket", "type", "last processed"), rows, whole=("ticket",))


def _print_notes(reaped: Reaped, order: ReapRequest, threshold_seconds: int | None) -> None:
    """Print what the report does not contain: the breaker, the dry run, unpublished copies."""
    if reaped.breaker_tripped:
        backlog = reaped.backlog
        same = "" if threshold_seconds is None else f" --threshold-seconds {threshold_seconds}"
        print_note(
            f"{backlog.stale} of {backlog.in_progress} tickets in progress are stale; that is too many, so"
            f" {'a run would end none' if order.dry_run else 'none was ended'}. Find the cause with"
            f" `dpp tickets stale{same}`; to end them anyway: `dpp tickets reap{same} --confirm {backlog.stale}`"
        )
    elif order.dry_run:
        print_note(f"dry run: would end {min(reaped.backlog.stale, order.rules.max_clean)}; nothing was changed")
    elif not reaped.published:
        print_note("S3 did not answer: the report is stored in Postgres; the next run writes its copies to S3")
