"""Draws `dpp top`: problems first, then the figures, within the terminal's lines and columns.

Every line is understandable without colour and is cut at the edge, never wrapped. Names chosen by users pass through
`plain`, so that no control character reaches the terminal.
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
"""From this width on, tenants are drawn beside the figures."""
_FEWEST_CONDITIONS = 3
_FEWEST_TENANTS = 2
_MOST_TENANTS = 10
_GAP = 3
_LONG_SECONDS = 5
"""From this age on, the title shows that a snapshot is pending."""


def draw(view: View, columns: int, lines: int | None = None) -> Text:
    """Draw the page in at most `lines` lines, with as much of each part as fits; None: everything."""
    head = [_head(view), *_trouble(view)]
    body = list(figures(view))
    wide = columns >= WIDE_COLUMNS
    tenants = _tenant_lines(view, 0 if wide else NAME_COLUMNS)
    if lines is not None:
        left = lines - len(head) - (max(len(body), len(tenants)) if wide else len(body) + 1)
        conditions = _conditions(view, columns, max(_FEWEST_CONDITIONS, left - (0 if wide else _FEWEST_TENANTS + 3)))
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
    if view.pending_seconds >= _LONG_SECONDS:
        line.append(f"  refreshing for {view.pending_seconds:.0f} s", style="yellow")
    return line


def _trouble(view: View) -> Iterator[Text]:
    """Yield a line per dependency that does not answer, for slow parts, and for outdated figures."""
    for name, why in view.snapshot.away.items():
        since = view.since.get(name, view.snapshot.asof)
        line = Text("?? ", style="bold yellow").append_text(plain(name))
        line.append(f" does not answer since {since:%H:%M:%S}: ", style="bold yellow")
        yield line.append_text(plain(why))
    if view.snapshot.slow:
        line = Text("?? took too long: ", style="bold yellow")
        yield line.append_text(plain(", ".join(view.snapshot.slow)))
    if view.outdated:
        oldest = min(view.outdated.values())
        yield Text(f"   outdated, as of {oldest:%H:%M:%S}: ", style="yellow").append_text(
            plain(", ".join(view.outdated))
        )


def _conditions(view: View, columns: int, at_most: int | None) -> list[Text]:
    """Return the headline and one line per problem; the last line counts those left out."""
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
        count = "1 PROBLEM" if wrong == 1 else f"{wrong} PROBLEMS"
        return Text(count, style="bold red").append("  what to do: docs/runbook.md", style="not bold default")
    if view.snapshot.away or view.snapshot.slow:
        return Text("INCOMPLETE", style="bold yellow").append(": no problems in the rest", style="not bold")
    headline = Text("No problems", style="bold green")
    return headline.append(
        " in rows, ledger and queues; see CloudWatch for functions and servers", style="not bold dim"
    )


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
    """Return a headline and the tenants with the smallest balances; nothing if they could not be read."""
    part = view.snapshot.tenants
    if part is None:
        return []
    shown = part.nearest[:_MOST_TENANTS]
    among = f"of {part.looked_at:,}" if part.is_all else f"of {part.looked_at:,} checked"
    name = f"{'TENANTS':<{indent}}" if indent else "TENANTS "
    width = min(max(28, *(len(one.tenant_id) for one in shown)) if shown else 28, 40)
    head = Text(f"{name + 'smallest balance, ' + among:<{indent + width}}", style="bold")
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
    if "tenants" in view.outdated:
        for line in lines:
            line.stylize("dim")
    return lines


def _beside(left: Sequence[Text], right: Sequence[Text], columns: int) -> list[Text]:
    """Place two blocks side by side."""
    width = columns - max((cell_len(line.plain) for line in right), default=0) - _GAP
    rows = []
    for number in range(max(len(left), len(right))):
        line = left[number].copy() if number < len(left) else Text()
        line.truncate(width, overflow="ellipsis", pad=True)
        if number < len(right):
            line.append(" " * _GAP).append_text(right[number])
        rows.append(line)
    return rows
