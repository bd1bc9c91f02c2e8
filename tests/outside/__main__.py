"""Runs every public suite and prints a line for each: `make outside`, or `OUTSIDE=folder make outside`.

Exits with 1 if a suite has fewer right answers than its aim. `--wrong` also prints each wrong case, and names after it
choose the suites to run.
"""

import sys
from pathlib import Path

from tests.outside import personal_data, url, w3lib_cases
from tests.outside.data import fetch_missing
from tests.outside.suite import Suite, count

SUITES: tuple[Suite, ...] = (*url.SUITES, *w3lib_cases.SUITES, *personal_data.SUITES)


def main(arguments: list[str]) -> int:
    data = Path(arguments[0]).resolve()
    options = arguments[1:]
    show_wrong = "--wrong" in options
    chosen = [option for option in options if option != "--wrong"]
    fetch_missing(data)
    return max([_report(suite, data, show_wrong) for suite in SUITES if not chosen or suite.name in chosen], default=0)


def _report(suite: Suite, data: Path, show_wrong: bool) -> int:
    result = count(suite, data)
    short = result.right < suite.aim
    otherwise = f", {len(suite.otherwise)} answered otherwise on purpose" if suite.otherwise else ""
    print(
        f"{suite.name}: {result.right} of {result.total}, aim {suite.aim}, {'short' if short else 'ok'}{otherwise}",
        flush=True,
    )
    if show_wrong:
        for case in result.wrong:
            print(f"  {case.name}: {case.answer}")
    return int(short)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
