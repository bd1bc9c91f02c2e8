"""What a day of 10^8 runs needs and costs on AWS, and what saturates first: `python -m bench.scale`.

Or `make bench-scale`. Prints the units that were measured, what the day asks for, what each part bears in the order in
which they saturate, cells, cost and simulated days. `--measure` measures the units anew (bench/scale_units.py), at rest
alone; `--write` writes all of it into docs/scale.md, between its marks.
"""

import argparse
import os

from bench.scale_day import AT_REST, Day, Units
from bench.scale_day import PATH as UNITS
from dpp_cli.paths import ROOT, importable


def main() -> None:
    """Measure if asked to, reckon, print."""
    options = _parser().parse_args()
    if options.measure:
        load = os.getloadavg()[0]
        if load > AT_REST and not options.under_load:
            raise SystemExit(f"the machine is not at rest (load {load:.1f}): wait, or say --under-load")
        _measure(options.runs)
    importable(ROOT / "cdk")
    from bench import scale_report  # noqa: PLC0415 - it asks the sizes, which stand in `cdk/`

    report = scale_report.Report(Units.read(), Day())
    for block in report.blocks.values():
        print(f"{block}\n")
    if options.write:
        page = scale_report.PATH.read_text(encoding="utf-8")
        scale_report.PATH.write_text(scale_report.written_into(page, report), encoding="utf-8")


def _measure(runs: int | None) -> None:
    from bench import scale_units  # noqa: PLC0415 - servers and functions, which nothing else here needs

    units = scale_units.measure(runs or scale_units.RUNS)
    units.write()
    print(f"{UNITS.relative_to(ROOT)}: load {units.load_before:.1f} before, {units.load_after:.1f} after\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the units anew, in three minutes")
    parser.add_argument("--runs", type=int, help="so many, to measure with")
    parser.add_argument("--under-load", action="store_true", help="measure though the machine is not at rest")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/scale.md")
    return parser


if __name__ == "__main__":
    main()
