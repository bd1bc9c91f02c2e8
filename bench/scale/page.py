"""Renders sections.md, and writes its sections into docs/scale.md.

A field is a formula over the names of model.py, simulation.py and `rendered`, with a format of `str.format`, or one of
`n` (three digits), `runs` (a count in words) and `span` (seconds in words). A line that begins with `for LIST: |` is
repeated for each item, as `it`.
"""

import re
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.scale import model
from bench.scale import simulation as sim
from bench.scale.model import CODE, FIXED, LARGEST, Cells, Model, evaluated, setting_of
from dpp_cdk.settings.sizes import PROD
from dpp_cli.docs import marked
from dpp_cli.paths import ROOT

PATH = ROOT / "docs" / "scale.md"


def written_into(page: str, sections: str) -> str:
    """The page with these sections between its marks. Raises ValueError if the page lacks a mark."""
    pattern = r"(<!-- [^:]+: .+? -->)\n\n(.+?)\n\n(<!-- end of .+? -->)"
    for begin, text, end in re.findall(pattern, sections, re.DOTALL):
        page = marked.rewritten(page, begin, text, end, PATH)
    return page


def rendered(m: Model) -> str:
    limits, (now, raised), formatter, lines = m.limits(), model.both_ways(m), _Formatter(), list[str]()
    names = vars(model) | vars(sim) | {"m": m, "day": m.day, "units": m.units, "limits": limits}
    names |= {"now": now, "raised": raised, "usage": model.usage_costs(m.day)}
    names |= {"fixed_now": model.fixed_costs(now), "fixed_raised": model.fixed_costs(raised)}
    names["hard"] = [limit for limit in limits if limit.kind in FIXED and limit.kind != CODE]
    names["code"] = [limit for limit in limits if limit.kind == CODE]
    names |= {"simulated_days": _simulated_days(m, raised), "ramps": _ramps(m)}
    for line in Path(__file__).with_name("sections.md").read_text(encoding="utf-8").splitlines():
        loop = re.fullmatch(r"for (.+?): (\|.*)", line)
        items = evaluated(loop[1], names) if loop else [None]
        lines += [formatter.vformat(loop[2] if loop else line, (), names | {"it": item}) for item in items]
    return "\n".join(lines)


class _Formatter(string.Formatter):
    def get_field(self, field_name: str, _args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return evaluated(field_name, kwargs), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        own = {"n": _number, "runs": _runs, "span": _span}.get(format_spec)
        return own(value) if own else str(super().format_field(value, format_spec))


def _simulated_days(m: Model, cells: Cells) -> list[tuple[str, sim.Simulation, float | None]]:
    prod, million = setting_of(PROD), Model(m.units, m.day._replace(runs=1e6))
    has = setting_of(cells.size)
    cell, whole = sim.cell_of(has, cells.model, burst=2 * has["api_requests"]), sim.cell_of(LARGEST, m)
    days = {
        "`prod` as shipped, 1 million runs": (sim.cell_of(prod, million, burst=1_000), million.day),
        f"one of {cells.count} cells": (cell, cells.day),
        "the same with an open gateway": (cell.times(requests=100), cells.day),
        "all runs in one deployment, AWS's quotas raised": (whole.times(requests=100), m.day),
    }
    return [(label, *sim.simulate_day(*day)) for label, day in days.items()]


def _ramps(m: Model) -> list[tuple[str, str, float, str, float]]:
    """The parts that saturate first while the rate grows: calculated, and simulated."""
    prod, ramps = sim.cell_of(setting_of(PROD), m), []
    for label, cell in {
        "`prod` as shipped": prod,
        "with twenty times the workers": prod.times(workers=20),
        "and twenty times the requests": prod.times(workers=20, requests=20),
    }.items():
        part, rate = min(cell.ceilings().items(), key=lambda ceiling: ceiling[1])
        ramps.append((label, part, rate, *sim.first_to_saturate(cell, 1.5 * rate)))
    return ramps


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
