"""Renders sections.md, and writes its sections into docs/scale.md.

A field is a formula with a format of `str.format`, or one of `n` (three digits), `runs` (a count in words) and `span`
(seconds in words). A line that begins with `for LIST:` is repeated for each item, as `it`.
"""

import re
import string
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.scale import model
from bench.scale import simulation as sim
from bench.scale.model import CODE, FIXED, FULL, LARGEST, PARTS, Cells, Model, evaluated, setting_of
from bench.scale.units import AT_REST, MONTH_DAYS, Day
from dpp.runs.jobs.batch import BATCH_LIMIT
from dpp_cdk.settings.sizes import PROD
from dpp_cli.docs import marked
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "scale.md"
MAX_RATE_PER_MINUTE = 1_000_000  # the highest rate limit of a tenant that the table's check accepts
_SECTIONS = Path(__file__).with_name("sections.md")


def written_into(page: str, sections: str) -> str:
    """The page with these sections between its marks. Raises ValueError if the page lacks a mark."""
    pattern = r"(<!-- [^:]+: .+? -->)\n\n(.+?)\n\n(<!-- end of .+? -->)"
    for begin, text, end in re.findall(pattern, sections, re.DOTALL):
        page = marked.rewritten(page, begin, text, end, PATH)
    return page


def rendered(m: Model) -> str:
    """All sections."""
    formatter, names, lines = _Formatter(), _names(m), []
    for line in _SECTIONS.read_text(encoding="utf-8").splitlines():
        loop = re.fullmatch(r"for (\S+): (.*)", line)
        items = evaluated(loop[1], names) if loop else [None]
        lines += [formatter.vformat(loop[2] if loop else line, (), names | {"it": item}) for item in items]
    return "\n".join(lines)


class _Formatter(string.Formatter):
    def get_field(self, field_name: str, _args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return evaluated(field_name, kwargs), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        own = {"n": _number, "runs": _runs, "span": _span}.get(format_spec)
        return own(value) if own else str(super().format_field(value, format_spec))


def _names(m: Model) -> dict[str, Any]:
    """The names in sections.md. In capitals: constants."""
    limits, (now, raised) = m.limits(), model.both_ways(m)
    usage, fixed_now, fixed_raised = (
        model.usage_costs(m.day),
        model.fixed_costs(now),
        model.fixed_costs(raised),
    )
    return {
        **{"GATEWAY": sim.GATEWAY, "DATABASE": sim.DATABASE, "WORKERS": sim.WORKERS},
        **{
            "m": m,
            "day": m.day,
            "units": m.units,
            "parts": PARTS,
            "limits": limits,
            "now": now,
            "raised": raised,
        },
        **{"usage": usage, "fixed_now": fixed_now, "fixed_raised": fixed_raised, "total": model.total},
        "all_now": [*usage, *fixed_now],
        "all_raised": [*usage, *fixed_raised],
        "lambdas": [line for line in usage if line.what.startswith("Lambda")],
        "large": lambda lines: [line for line in lines if line.usd >= 1_000],
        "small": lambda lines: [line for line in lines if line.usd < 1_000],
        "gp3_usd": float(model.price_of("RDS storage").usd),
        "prod": m.limits(setting_of(PROD))[:8],
        "hard": [one for one in limits if one.kind in FIXED and one.kind != CODE],
        "code": [one for one in limits if one.kind == CODE],
        "days": [(label, *sim.simulate_day(cell, day)) for label, cell, day in _days(m, raised)],
        "ramps": list(_ramps(m)),
        **{"AT_REST": AT_REST, "BATCH_LIMIT": BATCH_LIMIT, "FULL": FULL, "MONTH_DAYS": MONTH_DAYS},
        "FREEZE_XIDS": 200_000_000,  # transactions until a whole table is vacuumed: `autovacuum_freeze_max_age`
        "MAX_RATE_PER_MINUTE": MAX_RATE_PER_MINUTE,
    }


def _days(m: Model, cells: Cells) -> Iterator[tuple[str, sim.Cell, Day]]:
    """The simulated days."""
    has, million = setting_of(cells.size), Model(m.units, m.day._replace(runs=1e6))
    cell = sim.cell_of(has, cells.model, burst=2 * has["api_requests"])
    yield (
        "`prod` as shipped, 1 million runs",
        sim.cell_of(setting_of(PROD), million, burst=1_000),
        million.day,
    )
    yield f"one of {cells.count} cells", cell, cells.day
    yield "the same with an open gateway", cell.times(requests=100), cells.day
    yield (
        "all runs in one deployment, AWS's quotas raised",
        sim.cell_of(LARGEST, m).times(requests=100),
        m.day,
    )


def _ramps(m: Model) -> Iterator[tuple[object, ...]]:
    """The parts that saturate first while the rate grows: calculated, and simulated."""
    prod = sim.cell_of(setting_of(PROD), m)
    for label, cell in (
        ("`prod` as shipped", prod),
        ("with twenty times the workers", prod.times(workers=20)),
        ("and twenty times the requests", prod.times(workers=20, requests=20)),
    ):
        part, rate = min(cell.ceilings().items(), key=lambda ceiling: ceiling[1])
        yield label, part, rate, *sim.first_to_saturate(cell, 1.5 * rate)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _runs(value: float) -> str:
    for unit, word in ((1e9, "billion"), (1e6, "million")):
        if value >= unit:
            return f"{value / unit:.3g} {word}"
    return f"{float(f'{value:.2g}'):,.0f}"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return "not that day"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
