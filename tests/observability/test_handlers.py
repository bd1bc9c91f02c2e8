"""What each function measures, read from its stdout as CloudWatch reads it."""

import importlib
import json
from datetime import timedelta
from typing import Any
from unittest.mock import patch
from uuid import UUID, uuid4

import boto3
import pytest

from auth_errors_api.handler import Wiring as AuthErrorParts
from dpp.auth_errors import store as auth_errors
from dpp.auth_errors.outbox.consume import ConsumeEffects
from dpp.auth_errors.outbox.publish import PublishEffects, Waker
from dpp.auth_errors.outbox.retry_policy import RetryPolicy
from dpp.lifecycle.retention.periods import Retention
from dpp.packs.contract import PackFailure, PackReason
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import RedisUnavailable
from dpp.platform.keys import operator_keys
from dpp.platform.observability.invocation import InvocationFailed
from dpp.platform.observability.metrics import METRICS
from dpp.registered import registered
from dpp.runs import finalize, store, submit_store
from dpp.runs.jobs import reap
from dpp.runs.machine import Status
from dpp.runs.model import Run
from dpp.tickets import stop
from dpp.tickets import store as tickets
from dpp.tickets.config import ReaperSettings
from dpp.tickets.cycle import CycleEffects
from dpp.tickets.file import file
from dpp.tickets.model import RequestType
from dpp.tickets.process import ProcessEffects
from dpp.tickets.reap import ReapEffects
from dpp.tickets.store import NewTicket
from dpp.workspaces.control.observe import ControlEffects
from dpp.workspaces.errors import ProviderUnavailable
from dpp_cdk.monitoring.alarms import OPS_STEPS
from tests.http.faulty import faulty_functions
from tests.http.state import raw_messages
from tests.mcp.posted import call as tool_call
from tests.mcp.posted import modern, post
from tests.observability.emf import Measured, measured, totals
from tests.observability.firing import fire
from tests.observability.test_roles import Roles
from tests.retention.environment import Environment
from tests.support.api import ApiClient, a_body, gateway_event
from tests.support.world import A_COST, A_RESERVATION, ScriptedPacks, Tenant, World
from tests.workspaces.memory_provider import MemoryProvider, provider_of
from tickets_api.handler import Wiring as TicketParts
from workspaces_api.handler import Wiring as WorkspaceParts

A_FEE = 5_000
QUIET_RECONCILE = dict.fromkeys(
    [("lost_ledgers",), ("stuck_claims",), ("expired_leases",), ("unsent",), ("orphans",), ("audits",)], 0
)

type Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def fresh_meters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container of its own for each test; the API's meters are made anew where the routes hold them."""
    of_runs = ("runs_submit", "runs_read", "runs_mcp", "health", "api_docs")
    for name in (*of_runs, "tickets_api", "auth_errors_api", "workspaces_api"):
        module = importlib.import_module(f"{name}.handler")
        monkeypatch.setattr(module.meter, "_cold", True)


def work(world: World, monkeypatch: pytest.MonkeyPatch, packs: Any = None, bodies: Any = None) -> Any:
    """The worker's function over every message, or these."""
    records = [
        {"messageId": str(number), "receiptHandle": "handle", "body": body, "eventSource": "aws:sqs"}
        for number, body in enumerate(bodies if bodies is not None else raw_messages(world))
    ]
    return fire("run_worker", monkeypatch, world.work_effects(packs), {"Records": records})


def job(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One firing of a job."""
    if name == "ops_cycle":
        fire(name, monkeypatch, world_cycle(world))
        return
    effects: Any = world.reconcile_effects() if name == "run_reconcile" else world.finalize_effects()
    fire(name, monkeypatch, (world.database if name == "run_retention" else effects, world.new_database()))


def world_cycle(world: World, **executors: Any) -> CycleEffects:
    """What an ops cycle touches; an executor by its type's name in place of one that has nothing to do."""
    idle = {kind: lambda _ticket: "done" for kind in RequestType}
    given = idle | {RequestType(name): executor for name, executor in executors.items()}
    return CycleEffects(
        ReapEffects(world.database, world.storage, ReaperSettings().zone),
        ProcessEffects(world.database, given, ReaperSettings().rules),
    )


def filed(world: World) -> UUID:
    """An open ticket."""
    new = NewTicket(uuid4(), RequestType.DLQ_REDRIVE, {}, "for a test", "ops")
    file(new, world.database)
    return new.request_id


def taken(world: World, *, silent: timedelta) -> None:
    """A ticket whose processor has been silent for so long."""
    filed(world)
    with world.database.connection() as connection:
        ticket = tickets.take_open(connection, "a dead processor")
        assert ticket is not None
        connection.execute(
            "UPDATE tickets SET last_processed_at = last_processed_at - %s WHERE request_id = %s",
            (silent, ticket.request_id),
        )


def age(world: World, run: Run, **columns: timedelta) -> None:
    """Move a run's times into the past."""
    with world.database.connection() as connection:
        for column, by in columns.items():
            connection.execute(
                f"UPDATE runs SET {column} = {column} - %s WHERE run_id = %s",
                (by, run.run_id),
            )


def claimed(world: World, tenant: Tenant) -> Run:
    """A run whose worker died between claim and settle, six minutes ago."""
    run = world.leased(tenant)
    guard = store.Guard(Status.PROCESSING, run.lease_token)
    with patch("dpp.runs.finalize.roll_forward", return_value=None):
        finalize.finish(world.finalize_effects(), run, guard, reap.timed_out(run))
    age(world, run, finalize_claimed_at=timedelta(minutes=6))
    return run


def test_a_submit_is_counted_as_accepted_or_replayed(api: ApiClient, world: World, capsys: Output) -> None:
    tenant = world.tenant()
    for _ in range(3):
        api.submit(tenant, a_body(), key="the-same-key")
    out = capsys.readouterr().out
    assert totals(out, "Submits") == {("ACCEPTED",): 1, ("REPLAYED",): 2}
    assert totals(out, "ColdStarts") == {(): 1}
    assert totals(out, "Refusals") == {}


def test_a_call_of_a_tool_is_counted_as_a_submit_is(api: ApiClient, world: World, capsys: Output) -> None:
    """RUN-33: what is refused inside an answer, too; listing tools is neither."""
    tenant = world.tenant()
    for arguments in (*('{"question":"Why?","max_cost_usd":0.25}',) * 2, "{}"):
        post(api, tenant, tool_call(arguments))
    post(api, tenant, modern("tools/list"))
    out = capsys.readouterr().out
    assert totals(out, "Submits") == {("ACCEPTED",): 1, ("REPLAYED",): 1}
    assert totals(out, "Refusals") == {("VALIDATION_FAILED",): 1}
    assert totals(out, "ColdStarts") == {(): 1}


def test_a_refusal_is_counted_by_its_reason_code(api: ApiClient, world: World, capsys: Output) -> None:
    tenant, poor = world.tenant(), world.tenant(credit_usd_micros=0)
    api.submit(poor, a_body())
    api.submit(tenant, a_body(surprise=1))
    api.submit(tenant, None, raw="{")
    api.submit(None, a_body())
    api.read(tenant, "no-run")
    api.call("GET", "/nothing")
    assert totals(capsys.readouterr().out, "Refusals") == {
        ("BUDGET_DRAINED",): 1,
        ("VALIDATION_FAILED",): 1,
        ("MALFORMED_REQUEST",): 1,
        ("AUTH_INVALID",): 1,
        ("NOT_FOUND",): 2,
    }


def test_a_fault_of_ours_is_counted_too(
    api: ApiClient, world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_args: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(submit_store, "insert", explode)
    assert api.submit(world.tenant(), a_body()).status == 500
    assert totals(capsys.readouterr().out, "Refusals") == {("INTERNAL_ERROR",): 1}


def test_a_submit_that_could_not_be_queued_counts_its_refund(
    world: World, api: ApiClient, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-8: the run ended at once, and nobody else will count it."""
    with faulty_functions(world, monkeypatch) as broken:
        broken.lose_sqs()
        assert api.submit(world.tenant(), a_body()).status == 503
    out = capsys.readouterr().out
    assert totals(out, "Refusals") == {("QUEUE_ENQUEUE_FAILED",): 1}
    assert totals(out, "RunsEnded") == {("FAILED", "PLATFORM"): 1}
    assert totals(out, "RefundedUsdMicros") == {(): A_RESERVATION}
    assert totals(out, "SettledUsdMicros") == {(): 0}


def test_a_completed_run_counts_its_charge_and_what_goes_back(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(world.tenant())
    work(world, monkeypatch)
    out = capsys.readouterr().out
    assert totals(out, "RunsEnded") == {("COMPLETED", "NONE"): 1}
    assert totals(out, "SettledUsdMicros") == {(): A_COST}
    assert totals(out, "RefundedUsdMicros") == {(): A_RESERVATION - A_COST}
    assert totals(out, "Messages") == {("ENDED",): 1, ("RETURNED",): 0}


@pytest.mark.parametrize(
    ("reason", "group"),
    [
        (PackReason.PACK_FAILED, "PACK"),
        (PackReason.PACK_TIMEBOX_EXCEEDED, "LIMIT"),
        (PackReason.PACK_PROVIDER_FAILED, "PROVIDER"),
        (PackReason.PACK_INPUTS_INVALID, "INPUTS"),
    ],
)
def test_a_failed_run_is_counted_by_the_class_of_its_reason(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch, reason: PackReason, group: str
) -> None:
    world.submit(world.tenant())
    work(world, monkeypatch, ScriptedPacks(PackFailure(reason_code=reason, detail="It broke.")))
    out = capsys.readouterr().out
    assert totals(out, "RunsEnded") == {("FAILED", group): 1}
    assert totals(out, "SettledUsdMicros") == {(): A_FEE}


def test_the_age_of_a_message_is_from_its_sending_to_the_lease(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(world.tenant())
    sent = [body.replace('"enqueued_at":"20', '"enqueued_at":"19') for body in raw_messages(world)]
    work(world, monkeypatch, bodies=sent)
    [age_seconds] = [one.values for one in measured(capsys.readouterr().out) if one.name == "QueueAge"]
    assert age_seconds == [pytest.approx(100 * 365.25 * 86_400, rel=0.001)]


def test_a_message_that_will_come_again_is_counted_and_ends_nothing(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = work(world, monkeypatch, bodies=["not json", "{}"])
    assert len(answer["batchItemFailures"]) == 2
    out = capsys.readouterr().out
    assert totals(out, "Messages") == {("RETURNED",): 2}
    assert totals(out, "RunsEnded") == {}


def test_a_redelivered_message_is_counted_as_skipped(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(world.tenant())
    bodies = raw_messages(world)
    work(world, monkeypatch, bodies=bodies)
    capsys.readouterr()
    work(world, monkeypatch, bodies=bodies)
    out = capsys.readouterr().out
    assert totals(out, "Messages") == {("SKIPPED",): 1, ("RETURNED",): 0}
    assert totals(out, "QueueAge") == {}


def test_what_the_reaper_ends_is_counted(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-20."""
    run = world.leased(world.tenant())
    age(world, run, lease_expires_at=timedelta(minutes=3))
    job(world, monkeypatch, "run_reaper")
    out = capsys.readouterr().out
    assert totals(out, "Firings") == {(): 1}
    assert totals(out, "Interventions") == {("expired_leases",): 1}
    assert totals(out, "RunsEnded") == {("FAILED", "PLATFORM"): 1}
    assert totals(out, "SettledUsdMicros") == {(): A_FEE}


def test_what_the_sweeper_refunds_is_counted(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-21."""
    run = world.submit(world.tenant()).run
    age(world, run, created_at=timedelta(minutes=61))
    job(world, monkeypatch, "run_sweeper")
    out = capsys.readouterr().out
    assert totals(out, "Firings") == {(): 1}
    assert totals(out, "Interventions") == {("waiting",): 1}
    assert totals(out, "RefundedUsdMicros") == {(): A_RESERVATION}


def test_a_quiet_firing_of_reconcile_says_zero_where_an_alarm_looks(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No datum is no news: the alarms of drift and disputes tell a zero from a silence."""
    world.tenant()
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    for name in ("LedgerDriftUsdMicros", "LedgersDisputed", "RunsDisputed", "StuckClaims"):
        assert totals(out, name) == {(): 0}
    for name in ("Interventions", "LeftForNextFiring", "StoppedEarly"):
        assert totals(out, name) == QUIET_RECONCILE
    assert totals(out, "Firings") == {(): 1}


def test_drift_is_measured_by_the_firing_that_finds_it(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: without its sign, repaired or not."""
    tenant = world.tenant()
    world.ledger.client.decrby(world.ledger.keys.balance(tenant.tenant_id), 1_234)
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "LedgerDriftUsdMicros") == {(): 1_234}
    assert totals(out, "Interventions") == QUIET_RECONCILE | {("audits",): 1}
    assert totals(out, "LedgersDisputed") == {(): 0}


def test_a_disputed_ledger_is_shown_until_it_is_decided(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: a receipt that contradicts its row, and a balance that is off."""
    tenant = world.tenant()
    run = world.submit(tenant).run
    work(world, monkeypatch)
    world.ledger.client.hset(world.ledger.keys.receipt(tenant.tenant_id, run.id), "charge_usd_micros", "1")
    world.ledger.client.incrby(world.ledger.keys.balance(tenant.tenant_id), 7)
    for _ in range(2):
        capsys.readouterr()
        job(world, monkeypatch, "run_reconcile")
        assert totals(capsys.readouterr().out, "LedgersDisputed") == {(): 1}


def test_a_disputed_run_is_counted_once_and_shown_until_it_is_decided(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3."""
    tenant = world.tenant()
    run = claimed(world, tenant)
    world.ledger.refund_full(tenant.tenant_id, run.id)  # by other hands: the receipt contradicts the claim
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "RunsEnded") == {("DISPUTED", "PLATFORM"): 1}
    assert totals(out, "RunsDisputed") == {(): 1}
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "RunsEnded") == {}
    assert totals(out, "RunsDisputed") == {(): 1}


def test_a_claim_that_reconcile_cannot_finish_is_shown_as_stuck(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-22: one that it finishes is an intervention; one that it could not, a firing later, is stuck."""
    run = claimed(world, world.tenant())
    age(world, run, finalize_claimed_at=timedelta(minutes=1))

    def unavailable(*_args: Any, **_more: Any) -> Any:
        raise RedisUnavailable("RedisTimeout")

    with patch("dpp.runs.finalize._move_money", unavailable):
        # A claim that is taken over is as good as new: it is stuck once nobody could take it over for a while.
        with patch("dpp.runs.store.reclaim", unavailable):
            job(world, monkeypatch, "run_reconcile")
        out = capsys.readouterr().out
    assert totals(out, "StuckClaims") == {(): 1}
    assert totals(out, "LeftForNextFiring") == QUIET_RECONCILE | {("stuck_claims",): 1}
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "StuckClaims") == {(): 0}
    assert totals(out, "Interventions") == QUIET_RECONCILE | {("stuck_claims",): 1}
    assert totals(out, "RunsEnded") == {("FAILED", "PLATFORM"): 1}


def test_a_scan_that_ran_into_its_limit_says_so(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tenant()
    monkeypatch.setattr("dpp.runs.jobs.reconcile.SCAN_SECONDS", -1)
    job(world, monkeypatch, "run_reconcile")
    stopped = totals(capsys.readouterr().out, "StoppedEarly")
    assert stopped == QUIET_RECONCILE | {("lost_ledgers",): 1, ("orphans",): 1, ("audits",): 1}


def test_what_retention_removes_is_counted(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-12, D8."""
    run = world.submit(world.tenant()).run
    work(world, monkeypatch)
    age(world, run, retention_until=timedelta(days=31))
    with world.database.connection() as connection:
        connection.execute("UPDATE run_inputs SET purge_after = now() - interval '1 minute'")
    capsys.readouterr()
    job(world, monkeypatch, "run_retention")
    out = capsys.readouterr().out
    assert totals(out, "RunsExpired") == {(): 1}
    assert totals(out, "InputsPurged") == {(): 1}
    assert totals(out, "RunsEnded") == {}
    assert totals(out, "Firings") == {(): 1}


def test_a_quiet_ops_cycle_says_zero_where_an_alarm_looks(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-6."""
    job(world, monkeypatch, "ops_cycle")
    out = capsys.readouterr().out
    for name in ("EmergencyStop", "TicketReaperBreaker", "TicketAge", "TicketsOpen", "TicketsStale"):
        assert totals(out, name) == {(): 0}
    assert totals(out, "OpsStepsFailed") == {(step,): 0 for step in OPS_STEPS}
    assert totals(out, "Firings") == {(): 1}


def test_a_cycle_counts_what_it_carried_out_cleaned_and_found(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-7: what is stale is not in progress."""
    taken(world, silent=timedelta(hours=25))
    taken(world, silent=timedelta(0))
    filed(world)
    job(world, monkeypatch, "ops_cycle")
    out = capsys.readouterr().out
    assert totals(out, "TicketsCleaned") == {(): 1}
    assert totals(out, "TicketsEnded") == {("DONE",): 1, ("FAILED",): 0, ("LEFT",): 0, ("LOST",): 0}
    assert totals(out, "TicketsInProgress") == {(): 1}
    assert totals(out, "TicketsStale") == {(): 0}


def test_the_stop_is_shown_by_each_cycle_while_tickets_age(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-6: the job fires, and says why it does nothing."""
    filed(world)
    with world.database.connection() as connection:
        stop.decide(connection, stopped=True, actor="ops", reason="for a test")
    job(world, monkeypatch, "ops_cycle")
    out = capsys.readouterr().out
    assert totals(out, "EmergencyStop") == {(): 1}
    assert totals(out, "TicketsOpen") == {(): 1}
    assert totals(out, "TicketAge")[()] > 0
    assert totals(out, "Firings") == {(): 1}
    assert totals(out, "TicketsEnded") == {}


def test_the_breaker_and_a_failed_step_are_shown(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-6: neither fails the firing, so that only these metrics tell."""
    for _ in range(20):
        taken(world, silent=timedelta(hours=25))
    filed(world)

    def explode(_ticket: object) -> str:
        raise RuntimeError

    fire("ops_cycle", monkeypatch, world_cycle(world, DLQ_REDRIVE=explode))
    out = capsys.readouterr().out
    assert totals(out, "TicketReaperBreaker") == {(): 1}
    assert totals(out, "TicketsCleaned") == {(): 0}
    assert totals(out, "TicketsStale") == {(): 20}
    assert totals(out, "OpsStepsFailed") == {("ticket_reaper",): 0, ("tickets",): 1}
    assert totals(out, "Firings") == {(): 1}


def test_a_ticket_is_counted_when_it_is_filed_and_not_when_it_is_repeated(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-5."""
    file_by_http(world, monkeypatch)
    out = capsys.readouterr().out
    assert totals(out, "TicketsFiled") == {(): 1}
    assert totals(out, "Refusals") == {("AUTH_INVALID",): 1}


def file_by_http(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One ticket filed twice, and once by nobody."""
    minted = operator_keys.mint()
    with world.database.connection() as connection:
        operator_keys.store(connection, minted, "ops")
    effects = world_cycle(world)
    body = {"request_id": str(uuid4()), "request_type": "DLQ_REDRIVE", "reason": "for a test"}
    for token in (minted.token, minted.token, "none"):
        sent = {"Authorization": [f"Bearer {token}"], "Content-Type": ["application/json"]}
        event = gateway_event("POST", "/api/tickets", sent, json.dumps(body))
        fire("tickets_api", monkeypatch, TicketParts(world.database, effects.reaping, effects.rules), event)


def test_a_firing_that_fails_is_not_counted_as_one(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alarm of a silent job sees it."""
    with pytest.raises(InvocationFailed):
        fire("run_reaper", monkeypatch, None)
    assert totals(capsys.readouterr().out, "Firings") == {}


def test_every_metric_of_the_table_is_emitted(
    api: ApiClient, world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One day of the platform: nothing in the table is there for show."""
    tenant = world.tenant()
    api.submit(tenant, a_body())
    api.submit(None, a_body())
    work(world, monkeypatch)
    file_by_http(world, monkeypatch)
    for name in ("run_reaper", "run_sweeper", "run_reconcile", "run_retention", "ops_cycle"):
        job(world, monkeypatch, name)
    the_chamberlain_cleans(world, monkeypatch)
    an_error_is_analysed_and_decided(world, monkeypatch, tenant)
    a_workspace_runs_and_its_provider_is_away(world, monkeypatch, tenant)
    an_event_is_answered(Roles(world, monkeypatch))
    seen: list[Measured] = measured(capsys.readouterr().out)
    assert {one.name for one in seen} == {metric.name for metric in METRICS}
    values = {value for one in seen for value in one.dimensions.values()}
    assert not {tenant.tenant_id, tenant.token} & values


def the_chamberlain_cleans(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """An id that was seen long ago goes."""
    with world.database.connection() as connection:
        connection.execute("INSERT INTO lifecycle_seen VALUES ('jira:A-1', now() - interval '31 days')")
    env = Environment("", world.database)
    env.change(classes=registered(Retention(), RetryPolicy().max_retries))
    parts = (env.effects, lambda _role: None)
    told = fire("lifecycle_chamberlain", monkeypatch, parts)
    assert told["rows"]["seen"] == 1
    assert told["cleanup"]["done"]


def an_event_is_answered(roles: Roles) -> None:
    """Polled, carried out by a soldier, told to Slack; and a delivery that doesn't concern us."""
    roles.mention()
    roles.sentinel()
    roles.king()
    for _ in range(2):
        roles.general()
    roles.envoy()
    assert roles.delivered() == 202


def an_error_is_analysed_and_decided(world: World, monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> None:
    """Reported over HTTP, published, handled, and ignored by a policy."""
    with world.database.connection() as connection:
        ignore = {"name": "noise", "when": {}, "decide": "IGNORE", "reason": "for a test"}
        auth_errors.insert_policies(connection, [ignore], "ops", "for a test")
    body = {
        "requestId": "r1",
        "occurredAt": "2026-03-01T12:00:00Z",
        "httpStatus": 401,
        "exceptionClass": "com.example.TokenExpired",
        "stacktrace": "com.example.TokenExpired\n\tat com.example.Verifier.verify(Verifier.java:1)",
    }
    headers = {"Authorization": [f"Bearer {tenant.token}"], "Content-Type": ["application/json"]}
    event = gateway_event("POST", "/api/auth-errors", headers, json.dumps(body))
    sqs = boto3.client("sqs")
    events = Queue(sqs.create_queue(QueueName=f"events-{uuid4().hex}")["QueueUrl"])
    fire("auth_errors_api", monkeypatch, AuthErrorParts(world.database, Waker(None)), event)
    publishing = PublishEffects(world.database, events, RetryPolicy())
    consuming = ConsumeEffects.of(world.database, events, Waker(None), RetryPolicy())
    for beat in ("wake", "beat"):
        fire("auth_errors_publish", monkeypatch, publishing, {"Records": [{"body": beat}]})
        records = [
            {
                "messageId": one.message_id,
                "receiptHandle": one.receipt_handle,
                "body": one.body,
                "eventSource": "aws:sqs",
                "messageAttributes": {
                    name: {"stringValue": value, "dataType": "String"}
                    for name, value in one.attributes.items()
                },
            }
            for one in events.receive(at_most=10, invisible_seconds=600)
        ]
        fire("auth_errors_consume", monkeypatch, (consuming, events), {"Records": records})


def a_workspace_runs_and_its_provider_is_away(
    world: World, monkeypatch: pytest.MonkeyPatch, tenant: Tenant
) -> None:
    """Created over HTTP, looked at till it runs, looked at by the clock; then nobody answers for it."""
    sqs = boto3.client("sqs")
    looks, works = (
        Queue(sqs.create_queue(QueueName=f"{name}-{uuid4().hex}")["QueueUrl"]) for name in ("looks", "works")
    )
    fleet = MemoryProvider()
    effects = ControlEffects(world.database, provider_of(fleet), looks, works)
    headers = {
        "Authorization": [f"Bearer {tenant.token}"],
        "Content-Type": ["application/json"],
        "Idempotency-Key": ["a-key-of-ours"],
    }
    event = gateway_event("POST", "/v1/workspaces", headers, json.dumps({"name": "home"}))
    fire("workspaces_api", monkeypatch, WorkspaceParts(world.database, looks, 10), event)

    def deliver() -> None:
        for name, queue in (("workspaces_control", looks), ("workspaces_storage", works)):
            shown = queue.receive(at_most=10, invisible_seconds=600)
            records = [
                {
                    "messageId": one.message_id,
                    "receiptHandle": "h",
                    "body": one.body,
                    "eventSource": "aws:sqs",
                }
                for one in shown
            ]
            if not records:
                continue
            answer = fire(name, monkeypatch, effects, {"Records": records})
            assert answer == {"batchItemFailures": []}

    def by_the_clock(name: str) -> None:
        record = {"messageId": "1", "body": json.dumps({"detail-type": "Scheduled Event"})}
        fire(name, monkeypatch, effects, {"Records": [record | {"eventSource": "aws:sqs"}]})

    deliver()
    assert len(fleet.containers.running) == 1
    by_the_clock("workspaces_control")
    by_the_clock("workspaces_storage")

    def away(call: str) -> None:
        if call.endswith(".observe"):
            raise ProviderUnavailable

    fleet.faults.before = away
    deliver()
