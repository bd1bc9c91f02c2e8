"""Operator commands: cleanups of old data (LIFE-8, LIFE-13), implemented by `dpp.lifecycle.retention`.

Commands for events, tasks and messages are in the modules beside this one.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from dpp.auth_errors.config import RetrySettings
from dpp.lifecycle.config import CleanerSettings, StateSettings
from dpp.lifecycle.retention import control, store
from dpp.lifecycle.retention.breaker import Bounds
from dpp.lifecycle.retention.cleaner import clean
from dpp.lifecycle.retention.control import CleanerEffects
from dpp.lifecycle.retention.model import Cleanup
from dpp.lifecycle.retention.periods import RetentionSettings
from dpp.lifecycle.retention.usage import measure
from dpp.platform.aws.storage import ObjectStore
from dpp.platform.config import PostgresSettings, TimeZoneSettings
from dpp.registered import registered
from dpp_cli.errors import StackError
from dpp_cli.lifecycle import events, status, tasks
from dpp_cli.operator.output import moment, print_note, print_rows
from dpp_cli.operator.rows import RowSettings, Who, actor, connected_rows, opened_rows

lifecycle_app = typer.Typer(
    no_args_is_help=True,
    help="Show events, tasks and messages, answer questions of tasks, and run cleanups of old data.",
)
lifecycle_app.command("status")(status.show_status)
lifecycle_app.add_typer(events.events_app, name="events")
lifecycle_app.add_typer(tasks.tasks_app, name="tasks")
lifecycle_app.command("answer")(tasks.answer_one)
lifecycle_app.command("messages")(status.show_messages)
lifecycle_app.command("sources")(status.show_sources)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]
_UNITS = ("B", "KB", "MB", "GB", "TB")


class _LifecycleSettings(
    PostgresSettings, StateSettings, RetentionSettings, RetrySettings, CleanerSettings, TimeZoneSettings
):
    """The settings of the chamberlain (cleaner) function."""


@contextmanager
def _effects() -> Iterator[CleanerEffects]:
    with opened_rows(_LifecycleSettings) as rows:
        settings = rows.settings
        yield CleanerEffects(
            database=rows.database,
            storage=ObjectStore(settings.state_bucket, lambda: rows.at.client("s3")),
            classes=registered(settings.retention, settings.max_retries),
            retention=settings.retention,
            zone=settings.zone,
            bounds=Bounds(settings.max_deletes, settings.breaker_factor, settings.breaker_floor),
        )


@lifecycle_app.command("preview")
def show_preview(as_json: AsJson = False) -> None:
    """Show what a cleanup would delete now. Rows that are due but still needed are counted too; they stay."""
    with _effects() as effects:
        shown = control.preview(effects)
    if as_json:
        typer.echo(json.dumps([asdict(one) | {"trips": one.trips} for one in shown], default=str))
        return
    rows = (
        (
            *(one.name, f"{one.days} d", moment(one.before, effects.zone)),
            *(f"more than {one.allowed:,}" if one.trips else f"{one.due:,}", f"{one.allowed:,}"),
        )
        for one in shown
    )
    print_rows(("class", "kept for", "older than", "due", "allowed"), rows)
    for one in shown:
        if one.trips:
            print_note(
                f"{one.name}: far more rows than usual are due, so a cleanup deletes none of them;"
                " to delete them anyway: `dpp lifecycle run --over-breaker`"
            )


@lifecycle_app.command("run")
def run_cleanup(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option("--class", metavar="NAME", help="Clean up only this class; may be repeated.", show_default=False),
    ] = None,
    over_breaker: Annotated[
        bool, typer.Option(help="Delete even if far more than usual is due; check `preview` first.")
    ] = False,
    dry_run: Annotated[bool, typer.Option(help="Same as preview; change nothing.")] = False,
    who: Who = None,
    as_json: AsJson = False,
) -> None:
    """Start a cleanup and work on it for 40 s; the chamberlain (cleaner) continues it on schedule."""
    if dry_run:
        show_preview(as_json)
        return
    asked_by = actor(who)
    with _effects() as effects:
        begun = control.start_manual(effects, asked_by, only or (), over_breaker=over_breaker)
        done = clean(effects).cleanup or begun
    _print(done, effects, as_json=as_json)
    if not done.is_done:
        print_note("still in progress: `dpp lifecycle report` shows its progress, `dpp lifecycle stop` stops it")


@lifecycle_app.command("stop")
def stop_cleanup(who: Who = None, as_json: AsJson = False) -> None:
    """Stop the cleanup in progress. Deleted rows stay deleted; a daily cleanup starts again the next day."""
    asked_by = actor(who)
    with _effects() as effects:
        stopped = control.stop(effects, asked_by)
    if stopped is None:
        raise StackError("no cleanup is in progress")
    _print(stopped, effects, as_json=as_json)


@lifecycle_app.command("report")
def show_report(
    limit: Annotated[int, typer.Option(min=1, max=100, help="Show at most this many, newest first.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Show what the latest cleanups deleted, by class."""
    with connected_rows(RowSettings) as (connection, settings):
        found = store.latest(connection, limit)
    if not found:
        raise StackError(
            "no cleanup has run yet; the chamberlain (cleaner) runs one a day, `dpp lifecycle run` starts one now"
        )
    if as_json:
        typer.echo(json.dumps([_document(one) for one in found], default=str))
        return
    for one in found:
        _print_table(one, settings)


@lifecycle_app.command("usage")
def show_usage(as_json: AsJson = False) -> None:
    """Show the size of each retention class, now and projected to its full period (LIFE-13)."""
    with _effects() as effects:
        usage = measure(effects.database, effects.classes, effects.retention)
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in usage.classes]))
        return
    rows = (
        (
            *(one.name, f"{one.days} d", f"{one.rows:,}", _bytes(one.bytes)),
            f"{one.rows_a_day:,.0f} rows, {_bytes(one.bytes_a_day)}",
            *(_bytes(one.projected_bytes), moment(one.oldest_at, effects.zone)),
        )
        for one in usage.classes
    )
    print_rows(("class", "kept for", "rows", "bytes", "per day", "projected", "oldest deletable"), rows)
    if usage.unmeasured:
        print_note(f"not measured: {', '.join(usage.unmeasured)}")


def _print(cleanup: Cleanup, effects: CleanerEffects, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(_document(cleanup), default=str))
    else:
        _print_table(cleanup, effects)


def _print_table(cleanup: Cleanup, zoned: "CleanerEffects | TimeZoneSettings") -> None:
    state = f"done {moment(cleanup.ended_at, zoned.zone)}" if cleanup.is_done else "in progress"
    title = f"{cleanup.kind} of {cleanup.day}, requested by {cleanup.requested_by}, {state}"
    rows = (
        (
            *(one.name, one.status, f"{one.examined:,}", f"{one.deleted:,}", _bytes(one.bytes), str(one.errors)),
            moment(one.oldest_left_at, zoned.zone),
        )
        for one in cleanup.classes
    )
    print_rows(("class", "status", "examined", "deleted", "bytes", "errors", "oldest left"), rows, title=title)
    for warning in cleanup.warnings:
        print_note(f"warning: {warning}")


def _document(cleanup: Cleanup) -> dict[str, Any]:
    return asdict(cleanup) | {"deleted": cleanup.deleted, "bytes": cleanup.bytes}


def _bytes(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1_000:
            return f"{count:.0f} {unit}"
        count /= 1_000
    return f"{count:,.0f} {_UNITS[-1]}"
