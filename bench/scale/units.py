"""Input of the scale model: measured mean figures of one run (units.json), and the assumed day."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from dpp.lifecycle.retention.periods import Retention
from dpp_cli.docs import costs

PATH = Path(__file__).with_name("units.json")
DAY_SECONDS, MONTH_DAYS = 86_400, costs.HOURS / 24
AT_REST = 1.5  # measurements at a higher load average are not valid

type Units = dict[str, Any]
"""`calls`: mean figures of one call; `xids` are transactions that write. `bytes`: stored in Postgres per run, with
indexes, without gaps; and its entries in two indexes. `redis_overhead`: growth of Redis's memory per byte of keys.
"""


def read_units(path: Path = PATH) -> Units:
    """The committed measurement."""
    units: Units = json.loads(path.read_text(encoding="utf-8"))
    return units


def write_units(units: Units, path: Path = PATH) -> None:
    """Write with four significant digits."""
    rounded = json.loads(json.dumps(units), parse_float=lambda digits: float(f"{float(digits):.4g}"))
    path.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


class Day(NamedTuple):
    """Assumptions. Those that docs/deploy.md makes as well come from `dpp_cli.docs.costs`."""

    runs: float = 1e8
    peak_factor: float = 3.0  # peak rate over mean rate
    polls: int = costs.REQUESTS_A_RUN - 1
    work_seconds: float = costs.WORK_SECONDS
    request_ms: float = float(costs.REQUEST_SECONDS * 1_000)
    envelope_kb: float = costs.ENVELOPE_KB
    log_kb: float = costs.LOG_KB
    runs_per_tenant: float = 10_000
    live_days: float = 30
    tombstone_days: float = Retention().tombstones_days
    inputs_hours: float = 1
    dead_rows: float = 0.2  # between two runs of autovacuum: its scale factor
    random_pages: int = (
        4  # of 8 KiB, written per run: three index entries by random id, and the row when it expires
    )
    round_trip_ms: float = 1.0  # from a function to the cache or the database in another zone
    commit_ms: float = 2.0  # until the standby has the commit

    @property
    def mean(self) -> float:
        """Runs a second."""
        return self.runs / DAY_SECONDS

    @property
    def peak(self) -> float:
        """Runs a second at the peak."""
        return self.mean * self.peak_factor

    @property
    def requests_per_run(self) -> int:
        """The submit and the polls."""
        return 1 + self.polls
