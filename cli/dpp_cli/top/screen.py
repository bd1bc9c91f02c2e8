"""Draws `dpp top`: what is wrong first, then the figures, in as many lines and columns as there are.

A line says what it says without its colour, and is cut at the edge, never wrapped. What others named goes through
`plain`: nothing in it reaches the terminal raw.
"""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from dpp.money.micros import format_usd
from dpp_cli.operator.output import plain
from dpp_cli.top.figures import NAME_COLUMNS, figures, lasting
from dpp_cli.top.model import Condition, Level, Unit
from dpp_cli.top.view import View

WIDE_COLUMNS = 146
"""From so many on the tenants stand beside the figures."""
_FEWEST_CONDITIONS = 3
_FEWEST_TENANTS = 2
_MOST_TENANTS = 10
_GAP = 3
_LONG_SECONDS = 5
"""A look that takes so long is told of: until it is over the page is the one before."""


def draw(view: View, columns: int, lines: int | None = None) -> Text:
    """The page. `lines`: no more than so many, with as much of everything as fits; None: all of it."""
    head = [_head(view), *_trouble(view)]
    body = list(figures(view))
    wide = columns >= WIDE_COLUMNS
    tenants = _tenant_lines(view, 0 if wide else NAME_COLUMNS)
    if lines is not None:
        left = lines - len(head) - (max(len(body), len(tenants)) if wide else len(body) + 1)
        conditions = _conditions(
            view, columns, max(_FEWEST_CONDITIONS, left - (0 if wide else _FEWEST_TENANTS + 3))
        )
        if not wide:
            tenants = tenants[: max(_FEWEST_TENANTS + 1, left - len(conditions) - 1)]
    else:
        conditions = _conditions(view, columns, None)
    below = _beside(body, tenants, columns) if wide else [*body, Text(), *tenants]
    page = [*head, *conditions, Text(), *below]
    for line in page:
        line.truncate(columns, overflow="ellipsis")
    return Text("\n", no_wrap=True).join(page[:lines])


def _head(view: View) -> Text:
    line = Text("dpp top", style="bold")
    line.append("  ").append_text(plain(view.where))
    line.append(f"  {view.snapshot.asof:%Y-%m-%d %H:%M:%S%z}", style="dim")
    if view.every_seconds is not None:
        line.append(f"  every {view.every_seconds:g} s, q ends", style="dim")
    if view.asking_seconds >= _LONG_SECONDS:
        line.append(f"  asking for {view.asking_seconds:.0f} s", style="yellow")
    return line


def _trouble(view: View) -> Iterator[Text]:
    """What does not answer, since when; what took too long; and of when the figures are."""
    for name, why in view.snapshot.away.items():
        since = view.since.get(name, view.snapshot.asof)
        line = Text("?? ", style="bold yellow").append_text(plain(name))
        line.append(f" does not answer since {since:%H:%M:%S}: ", style="bold yellow")
        yield line.append_text(plain(why))
    if view.snapshot.slow:
        line = Text("?? took too long: ", style="bold yellow")
        yield line.append_text(plain(", ".join(view.snapshot.slow)))
    if view.held:
        oldest = min(view.held.values())
        yield Text(f"   what could not be asked is as of {oldest:%H:%M:%S}: ", style="yellow").append_text(
            plain(", ".join(view.held))
        )


def _conditions(view: View, columns: int, at_most: int | None) -> list[Text]:
    """A headline, and a line each; the last says how many are left out."""
    found = view.snapshot.conditions
    wrong = sum(one.level is Level.ALARM for one in found)
    lines = [_headline(view, wrong)]
    shown = found if at_most is None or len(found) < at_most else found[: max(1, at_most - 2)]
    lines += [_condition(one, columns) for one in shown]
    if len(found) > len(shown):
        lines.append(Text(f"   and {len(found) - len(shown)} more: --once shows all", style="red"))
    return lines


def _headline(view: View, wrong: int) -> Text:
    if wrong:
        count = "1 THING IS WRONG" if wrong == 1 else f"{wrong} THINGS ARE WRONG"
        return Text(count, style="bold red").append("  what to do: docs/runbook.md", style="not bold default")
    if view.snapshot.away or view.snapshot.slow:
        return Text("NOT ALL COULD BE ASKED", style="bold yellow").append(
            ": nothing is wrong with the rest", style="not bold"
        )
    said = Text("Nothing is wrong", style="bold green")
    return said.append(" in rows, ledger and queues; the rest only CloudWatch sees", style="not bold dim")


def _condition(one: Condition, columns: int) -> Text:
    alarm = one.level is Level.ALARM
    line = Text("!! " if alarm else " ! ", style="bold red" if alarm else "yellow")
    line.append_text(plain(one.says))
    if one.subject:
        line.append(" (").append_text(plain(one.subject)).append(")")
    if one.value is not None:
        line.append(": ").append(_value(one.value, one.unit), style="bold")
    entry = plain(one.entry.removeprefix("runbook.md"))
    entry.stylize("dim")
    line.truncate(max(10, columns - cell_len(entry.plain) - 2), overflow="ellipsis", pad=True)
    return line.append("  ").append_text(entry)


def _value(value: float, unit: Unit) -> str:
    match unit:
        case Unit.SECONDS:
            return lasting(value)
        case Unit.USD_MICROS:
            return f"{value:,.0f} µUSD"
        case Unit.COUNT:
            return f"{value:,.0f}"


def _tenant_lines(view: View, indent: int) -> list[Text]:
    """Who has least left, a headline first; none where nobody could be asked."""
    part = view.snapshot.tenants
    if part is None:
        return []
    shown = part.nearest[:_MOST_TENANTS]
    among = f"of {part.looked_at:,}" if part.is_all else f"of {part.looked_at:,} looked at"
    name = f"{'TENANTS':<{indent}}" if indent else "TENANTS "
    width = min(max(28, *(len(one.tenant_id) for one in shown)) if shown else 28, 40)
    head = Text(f"{name + 'nearest to empty, ' + among:<{indent + width}}", style="bold")
    lines = [head.append(f"{'USD left':>13}{'reserved':>13}", style="not bold dim")]
    for one in shown:
        tenant = plain(one.tenant_id)
        tenant.truncate(width, overflow="ellipsis", pad=True)
        line = Text(" " * indent).append_text(tenant)
        style = "bold red" if one.balance_usd_micros <= 0 else ""
        line.append(f"{format_usd(one.balance_usd_micros):>13}", style=style)
        line.append(f"{format_usd(one.reserved_usd_micros):>13}")
        if one.requests_left == 0:
            line.append(" throttled", style="yellow")
        lines.append(line)
    if "tenants" in view.held:
        for line in lines:
            line.stylize("dim")
    return lines


def _beside(left: Sequence[Text], right: Sequence[Text], columns: int) -> list[Text]:
    """Two blocks side by side."""
    width = columns - max((cell_len(line.plain) for line in right), default=0) - _GAP
    rows = []
    for number in range(max(len(left), len(right))):
        line = left[number].copy() if number < len(left) else Text()
        line.truncate(width, overflow="ellipsis", pad=True)
        if number < len(right):
            line.append(" " * _GAP).append_text(right[number])
        rows.append(line)
    return rows
