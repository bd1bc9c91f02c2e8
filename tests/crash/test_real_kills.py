"""The matrix kills by an exception that nobody catches. A process that is killed by SIGKILL leaves the very same."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.environment import Environment
from tests.crash.invariants import snapshot, violations_after_recovery, violations_after_retention
from tests.crash.recovery import recover, retire
from tests.crash.servers import CrashServers
from tests.crash.subprocess_worker import told
from tests.support.crash_points import Kind, Point, Points, listed

ROOT = Path(__file__).parents[2]
KILLS = [
    ("submit", "insert_run", Kind.KILLED_AFTER),
    ("work", "claim", Kind.KILLED_AFTER),
    ("reap", "settle", Kind.KILLED_AFTER),
    ("sweep", "commit", Kind.KILLED_BEFORE),
    ("reconcile lost ledgers", "rebuild", Kind.KILLED_AFTER),
]
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|t_[0-9a-f]{12}|[0-9a-f]{64}")


@pytest.mark.parametrize(("scenario", "call", "kind"), KILLS, ids=[f"{s}:{c}:{k}" for s, c, k in KILLS])
def test_a_process_killed_by_sigkill_leaves_what_the_matrix_leaves(
    servers: CrashServers, scenario: str, call: str, kind: Kind
) -> None:
    """Rows and keys agree after either death, and what comes after the real one keeps every promise."""
    point = next(each for each in listed() if (each.scenario, each.call) == (scenario, call))
    simulated = _left(servers.play(scenario, Points(scenario, at=point.number, kind=kind)))

    env = servers.arranged(scenario)
    _kill(env, point, kind)

    assert _left(env) == simulated
    assert recover(env)
    assert violations_after_recovery(env) == []
    retire(env)
    assert violations_after_retention(env) == []


def _kill(env: Environment, point: Point, kind: Kind) -> None:
    victim = subprocess.run(
        [sys.executable, "-m", "tests.crash.subprocess_worker"],
        input=told(env, point, kind),
        text=True,
        capture_output=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )
    assert victim.returncode == -signal.SIGKILL, victim.stderr


def _left(env: Environment) -> tuple[list[str], list[str]]:
    """Rows and keys without what no two processes share: ids, tokens, times."""
    found = snapshot(env)
    rows = [
        f"{row['status']} {row['money_state']} {row['finalize_stage']} version {row['version']} "
        f"{row['finalize_charge_usd_micros']} {row['actual_cost_usd_micros']} {row['last_error_reason_code']} "
        f"enqueued {row['enqueued_at'] is not None} leased {row['lease_token'] is not None}"
        for row in found.database.runs.values()
    ]
    balances = [
        f"{name} = {value}"
        for name, value in found.keys.values.items()
        if name.endswith(":balance_usd_micros")
    ]
    names = list(found.keys.values)
    return sorted(rows), sorted(_ID.sub("*", name) for name in (*names, *balances))
