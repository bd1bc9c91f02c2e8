"""Needs and costs of 10^8 runs a day on AWS, and what saturates first: `python -m bench.scale`, `make bench-scale`.

Prints the generated sections of docs/scale.md. `--write` writes them into the page. `--measure` measures the units
first, in three minutes; the machine must be at rest.
"""

import argparse
import os

from dpp_cli.paths import ROOT, importable

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--measure", action="store_true", help="measure the units, in three minutes")
    parser.add_argument("--under-load", action="store_true", help="measure although the machine is not at rest")
    parser.add_argument("--write", action="store_true", help="write the sections into docs/scale.md")
    options = parser.parse_args()
    importable(ROOT / "cdk")
    from bench.scale import measure, model, page

    if options.measure:
        if (load := os.getloadavg()[0]) > model.AT_REST and not options.under_load:
            raise SystemExit(f"the machine is not at rest (load {load:.1f}): wait, or pass --under-load")
        measure.measure()
    sections = page.rendered(model.Model(model.read_units(), model.Day()))
    print(sections)
    if options.write:
        page.PATH.write_text(page.written_into(page.PATH.read_text(encoding="utf-8"), sections), encoding="utf-8")
