"""Renders the figures of `dpp top`, one line per part."""

from collections.abc import Iterator

from rich.text import Text

from dpp.runs.operations.stats import COUNTED_TO, ENDS_COUNTED_TO, RECENT_SECONDS
from dpp_cli.operator.output import plain, span
from dpp_cli.top import model
from dpp_cli.top.view import View

NAME_COLUMNS = 12
_BAD = "bold red"
_MINUTES = RECENT_SECONDS // 60


def figures(view: View) -> Iterator[Text]:
    """Yield the lines of each part that the deployment has; parts of an earlier snapshot are dim."""
    found = view.snapshot
    parts: tuple[tuple[str, Iterator[Text]], ...] = (
        ("runs", iter(()) if found.runs is None else _runs(found.runs)),
        ("queues", iter(()) if found.queues is None else _queues(found.queues)),
        ("money", _money(found.money, found.runs)),
        ("tenants", iter(()) if found.tenants is None else _throttled(found.tenants)),
        ("tickets", iter(()) if found.tickets is None else _tickets(found.tickets)),
        ("events", iter(()) if found.events is None else _events(found.events)),
        ("workspaces", iter(()) if found.workspaces is None else _workspaces(found.workspaces)),
        ("flow", iter(()) if found.flow is None else _flow(found.flow)),
        ("data", iter(()) if found.data is None else _data(found.data)),
    )
    for name, lines in parts:
        for line in lines:
            if name in view.outdated:
                line.stylize("dim")
            yield line


def lasting(seconds: float) -> str:
    """Format a duration; in seconds below two minutes."""
    return f"{max(0.0, seconds):.0f} s" if seconds < 120 else span(seconds)


def _line(name: str, *cells: Text | str) -> Text:
    line = Text(f"{name:<{NAME_COLUMNS}}", style="bold")
    texts = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
    return line.append_text(Text(" · ", style="not bold").join(texts))


def _bad(name: str, count: int) -> Text:
    """Format a figure that should be 0; red otherwise."""
    return Text(f"{name} {count:,}", style=_BAD if count else "not bold")


def _count(name: str, count: int) -> Text:
    return Text(f"{name} {_counted(count)}", style="not bold")


def _counted(count: int, bound: int = COUNTED_TO) -> str:
    return f"{count:,}+" if count >= bound else f"{count:,}"


def _runs(part: model.RunsPart) -> Iterator[Text]:
    oldest = f", oldest for {lasting(part.oldest_seconds)}" if part.oldest_seconds else ""
    parked = f", {part.parked:,} parked" if part.parked else ""
    yield _line(
        "RUNS",
        Text(f"waiting {_counted(part.waiting)}{parked}{oldest}", style="not bold"),
        _count("running", part.processing),
        _count("ending", part.ending),
    )
    ended = part.completed + part.failed
    more = "+" if ended >= ENDS_COUNTED_TO else ""
    yield _line(
        "",
        Text(f"ended {ended / _MINUTES:,.1f}{more} per minute", style="not bold"),
        Text(f"last {_MINUTES} min: {part.completed:,} COMPLETED, {part.failed:,} FAILED", style="not bold"),
    )


def _queues(part: model.QueuesPart) -> Iterator[Text]:
    runs = part.runs
    later = f", delayed {runs.delayed:,}" if runs.delayed else ""
    yield _line(
        "QUEUES",
        Text(f"runs {runs.visible:,}, in flight {runs.taken:,}{later}", style="not bold"),
        _bad("dead letters of runs", part.dead_letters.visible),
        _bad("of events", part.event_dead_letters.visible),
    )


def _money(part: model.MoneyPart | None, runs: model.RunsPart | None) -> Iterator[Text]:
    cells: list[Text] = []
    if part is not None:
        drift = f"drift {part.drift_usd_micros:,} µUSD"
        cells.append(Text(drift, style=_BAD if part.drift_usd_micros else "not bold"))
        cells.append(_bad("disputed ledgers", part.disputed))
    if runs is not None:
        cells += [_bad("runs", runs.disputed), _bad("stuck claims", runs.stuck_claims)]
    if cells:
        yield _line("MONEY", *cells)
    if part is not None and part.rebuilt:
        yield _line("", _count(f"balances rebuilt in the last {_MINUTES} min", part.rebuilt))


def _throttled(part: model.TenantsPart) -> Iterator[Text]:
    if part.throttled:
        yield _line("THROTTLED", plain(", ".join(part.throttled)))


def _tickets(part: model.TicketsPart) -> Iterator[Text]:
    oldest = f" for {lasting(part.oldest_seconds)}" if part.open else ""
    if part.last_cycle_seconds is None:
        cycle = Text("no cycle yet", style="not bold")
    else:
        outcome = plain(part.last_cycle_outcome or "")
        cycle = Text("cycle ", style="not bold").append_text(outcome)
        cycle.append(f" {lasting(part.last_cycle_seconds)} ago")
    yield _line(
        "TICKETS",
        Text(f"open {part.open:,}{oldest}", style="not bold"),
        _count("in progress", part.in_progress),
        _bad("stale", part.stale),
        cycle,
    )


def _events(part: model.EventsPart) -> Iterator[Text]:
    late = f", due for {lasting(part.lag_seconds)}" if part.lag_seconds >= 1 else ""
    oldest = f", oldest for {lasting(part.queued_seconds)}" if part.queued else ""
    yield _line(
        "EVENTS",
        Text(f"to publish {part.to_publish:,}{late}", style="not bold"),
        Text(f"queued {_counted(part.queued, 1_000)}{oldest}", style="not bold"),
        _count("to retry", part.retrying),
        _bad("dead", part.dead + part.dead_in_outbox),
    )


def _workspaces(part: model.WorkspacesPart) -> Iterator[Text]:
    if not part.by_phase:
        return
    phases = [_count(plain(phase).plain, count) for phase, count in part.by_phase.items() if phase != "ERROR"]
    under_way = [Text(f"operation for {lasting(part.operation_seconds)}", style="not bold")]
    yield _line(
        "WORKSPACES",
        *phases,
        _bad("in error", part.in_error),
        _count("not in desired state", part.unsettled),
        *(under_way if part.operation_seconds else ()),
    )


def _flow(part: model.FlowPart) -> Iterator[Text]:
    heard = {role: seconds for role, seconds in part.heartbeat_ages.items() if seconds is not None}
    if set(heard) - {"CHAMBERLAIN"}:
        cells = [
            _with_age("events", part.events, part.oldest_seconds.get("EVENT", 0)),
            _with_age("tasks", part.tasks, part.oldest_seconds.get("TASK", 0)),
            _count("questions", part.asked),
            _with_age("messages", part.messages, part.oldest_seconds.get("MESSAGE", 0)),
        ]
        failing = [f"{source.lower()} failed {n}×" for source, n in part.sources.items() if n]
        yield _line("FLOW", *cells, *(plain(one) for one in failing))
    if heard:
        ages = (f"{role.lower()} {lasting(age)}" for role, age in heard.items())
        yield _line("SILENT FOR", plain(", ".join(ages)))


def _with_age(name: str, count: int, seconds: float) -> Text:
    age = f" for {lasting(seconds)}" if count and seconds else ""
    return Text(f"{name} {count:,}{age}", style="not bold")


def _data(part: model.DataPart) -> Iterator[Text]:
    late = part.cleanup_seconds
    yield _line(
        "DATA",
        Text("no cleanup yet" if late is None else f"last cleanup {lasting(late)} ago", style="not bold"),
        _bad("tripped", len(part.tripped)),
        _bad("failed", len(part.failed)),
        _count("to delete", part.objects_to_delete),
        *([_bad("threads overdue", part.threads_overdue)] if part.threads_overdue else ()),
    )
