"""The scheduled jobs on the deployed stack: what a crash left, the clock finishes (RUN-20 … RUN-22)."""

from datetime import timedelta
from uuid import uuid4

import pytest

from dpp.runs import store, submit_store
from dpp.runs.model import Run
from tests.e2e.conftest import E2eTenant, Platform
from tests.support.world import a_request

pytestmark = pytest.mark.e2e

A_TICK_SECONDS = 150  # a rule fires once a minute; a busy machine may miss one


def left_behind(platform: Platform, tenant: E2eTenant, *, age: timedelta, sent: bool) -> Run:
    """A run as a submit that crashed leaves it: reserved and inserted `age` ago, its message sent or not."""
    inputs = {"question": "What is left?", "context": "A run is left."}
    request = a_request(tenant.tenant_id, inputs=inputs, timebox_sec=20, min_reliability_score=0.0)
    run_id = uuid4()
    row = platform.database.execute("SELECT now()").fetchone()
    assert row is not None
    then = row[0] - age
    platform.ledger.reserve(tenant.tenant_id, str(run_id), request.reserved_usd_micros, 0)
    run = submit_store.insert(platform.database, request, run_id, then)
    if sent:
        submit_store.mark_enqueued(platform.database, run, then)
    return run


def test_run_20_the_reaper_ends_what_a_dead_worker_left(platform: Platform) -> None:
    """RUN-20: on its 30-second beat, with the minimum fee."""
    tenant = platform.tenant()
    run = left_behind(platform, tenant, age=timedelta(minutes=10), sent=True)
    then = run.created_at
    assert store.start_processing(platform.database, run, "a dead worker's", then) is not None
    view = platform.finished(tenant, run.id, A_TICK_SECONDS)
    assert (view["status"], view["problem"]["reason_code"]) == ("FAILED", "WORKER_TIMEOUT")
    assert view["cost"]["used_usd"] == "0.0050"
    assert platform.position(tenant).balanced


def test_run_21_the_sweeper_refunds_what_waited_for_over_an_hour(platform: Platform) -> None:
    """RUN-21: the whole reservation comes back."""
    tenant = platform.tenant()
    run = left_behind(platform, tenant, age=timedelta(hours=2), sent=True)
    view = platform.finished(tenant, run.id, A_TICK_SECONDS)
    assert (view["status"], view["money_state"]) == ("FAILED", "REFUNDED")
    assert view["problem"]["reason_code"] == "RESERVATION_EXPIRED"
    assert platform.position(tenant).balance_usd_micros == 10_000_000


def test_d5_reconcile_sends_what_was_never_sent(platform: Platform) -> None:
    """D5: the run waits a minute, not an hour, and completes."""
    tenant = platform.tenant()
    run = left_behind(platform, tenant, age=timedelta(minutes=2), sent=False)
    assert platform.finished(tenant, run.id, A_TICK_SECONDS)["status"] == "COMPLETED"
    assert platform.position(tenant).balanced
