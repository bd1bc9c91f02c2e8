"""The matrix kills by an exception that no code catches. A process that is killed by SIGKILL leaves the same."""

import os
import re
import signal
import warnings
from typing import NoReturn

import pytest

from tests.crash.crashes import RunCrashes
from tests.crash.environment import Environment
from tests.crash.invariants import snapshot
from tests.support.crash_points import FaultInjector, FaultKind

KILLS = [
    ("submit", "insert_run", FaultKind.KILLED_AFTER),
    ("work", "claim", FaultKind.KILLED_AFTER),
    ("reap", "settle", FaultKind.KILLED_AFTER),
    ("sweep", "commit", FaultKind.KILLED_BEFORE),
    ("reconcile lost ledgers", "rebuild", FaultKind.KILLED_AFTER),
]
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|t_[0-9a-f]{12}|[0-9a-f]{64}")


class _KillingInjector(FaultInjector):
    """Kills its own process instead of raising Killed."""

    def _die(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("no process survives SIGKILL")


@pytest.mark.parametrize(("act", "call", "kind"), KILLS, ids=[f"{a}:{c}:{k}" for a, c, k in KILLS])
def test_a_process_killed_by_sigkill_leaves_what_the_matrix_leaves(
    crashes: RunCrashes, act: str, call: str, kind: FaultKind
) -> None:
    """Rows and keys are the same after both, and every invariant holds after the recovery from the real one."""
    simulated = _left(crashes.crash_at(act, call, kind))
    point = next(point for point in crashes.record(act) if point.call == call)

    crashes.arrange(act)
    _perform_and_die(crashes, act, _KillingInjector(act, at=point.number, kind=kind))

    assert _left(crashes.env) == simulated
    crashes.recover(act)
    assert list(crashes.violations(act)) == []


def _perform_and_die(crashes: RunCrashes, act: str, injector: FaultInjector) -> None:
    """In a forked process on the same Postgres and Redis, with connections of its own; SQS and S3 die with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # it uses nothing that another thread may hold
        pid = os.fork()
    if pid == 0:
        try:
            crashes.world.database = crashes.world.new_database()
            crashes.perform(act, injector)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    assert os.WTERMSIG(status) == signal.SIGKILL


def _left(env: Environment) -> tuple[list[str], list[str]]:
    """Rows and keys, without ids, tokens and times, which differ between processes."""
    found = snapshot(env)
    rows = [
        f"{row['status']} {row['money_state']} {row['finalize_stage']} version {row['version']} "
        f"{row['finalize_charge_usd_micros']} {row['actual_cost_usd_micros']} {row['last_error_reason_code']} "
        f"enqueued {row['enqueued_at'] is not None} leased {row['lease_token'] is not None}"
        for row in found.rows("runs")
    ]
    balances = [
        f"{name} = {value}" for name, value in found.keys.values.items() if name.endswith(":balance_usd_micros")
    ]
    names = list(found.keys.values)
    return sorted(rows), sorted(_ID.sub("*", name) for name in (*names, *balances))
