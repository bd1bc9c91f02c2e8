"""The metrics of each function, read from its stdout as CloudWatch reads it."""

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
from tests.observability.invoke import invoke
from tests.observability.test_roles import Roles
from tests.retention.environment import Environment
from tests.support.api import ApiClient, a_body, gateway_event
from tests.support.stored import existing
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
    """A new container for each test: the meters of the API functions count a cold start again."""
    of_runs = ("runs_submit", "runs_read", "runs_mcp", "health", "api_docs")
    for name in (*of_runs, "tickets_api", "auth_errors_api", "workspaces_api"):
        module = importlib.import_module(f"{name}.handler")
        monkeypatch.setattr(module.meter, "_cold", True)


def work(world: World, monkeypatch: pytest.MonkeyPatch, packs: Any = None, bodies: Any = None) -> Any:
    """Run the worker's function with every message, or with these bodies."""
    records = [
        {"messageId": str(number), "receiptHandle": "handle", "body": body, "eventSource": "aws:sqs"}
        for number, body in enumerate(bodies if bodies is not None else raw_messages(world))
    ]
    return invoke("run_worker", monkeypatch, world.work_effects(packs), {"Records": records})


def job(world: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Run one tick of a job."""
    if name == "ops_cycle":
        invoke(name, monkeypatch, world_cycle(world))
        return
    effects: Any = world.reconcile_effects() if name == "run_reconcile" else world.finalize_effects()
    invoke(name, monkeypatch, (world.database if name == "run_retention" else effects, world.new_database()))


def world_cycle(world: World, **executors: Any) -> CycleEffects:
    """The effects of an ops cycle; given executors, by type, replace ones without effect."""
    idle = {kind: lambda _ticket: "done" for kind in RequestType}
    given = idle | {RequestType(name): executor for name, executor in executors.items()}
    return CycleEffects(
        ReapEffects(world.database, world.storage, ReaperSettings().zone),
        ProcessEffects(world.database, given, ReaperSettings().rules),
    )


def filed(world: World) -> UUID:
    """File a ticket."""
    new = NewTicket(uuid4(), RequestType.DLQ_REDRIVE, {}, "for a test", "ops")
    file(new, world.database)
    return new.request_id


def taken(world: World, *, silent: timedelta) -> None:
    """Take a ticket, with a processor that has been silent for this time."""
    filed(world)
    ticket = existing(world.using(tickets.take_open, "a dead processor"))
    statement = "UPDATE tickets SET last_processed_at = last_processed_at - %s WHERE request_id = %s"
    world.sql(statement, (silent, ticket.request_id))


def age(world: World, run: Run, **columns: timedelta) -> None:
    """Move a run's times into the past."""
    for column, by in columns.items():
        world.sql(f"UPDATE runs SET {column} = {column} - %s WHERE run_id = %s", (by, run.run_id))


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


def test_a_tool_call_is_counted_as_a_submit(api: ApiClient, world: World, capsys: Output) -> None:
    """RUN-33: a refusal inside an answer, too; listing tools is not counted."""
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


def test_an_internal_error_is_counted(
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
    """RUN-8: the submit ended the run, so no other function counts it."""
    with faulty_functions(world, monkeypatch) as broken:
        broken.lose_sqs()
        assert api.submit(world.tenant(), a_body()).status == 503
    out = capsys.readouterr().out
    assert totals(out, "Refusals") == {("QUEUE_ENQUEUE_FAILED",): 1}
    assert totals(out, "RunsEnded") == {("FAILED", "PLATFORM"): 1}
    assert totals(out, "RefundedUsdMicros") == {(): A_RESERVATION}
    assert totals(out, "SettledUsdMicros") == {(): 0}


def test_a_completed_run_counts_its_charge_and_refund(
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


def test_the_age_of_a_message_is_from_its_send_to_the_lease(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(world.tenant())
    sent = [body.replace('"enqueued_at":"20', '"enqueued_at":"19') for body in raw_messages(world)]
    work(world, monkeypatch, bodies=sent)
    [age_seconds] = [one.values for one in measured(capsys.readouterr().out) if one.name == "QueueAge"]
    assert age_seconds == [pytest.approx(100 * 365.25 * 86_400, rel=0.001)]


def test_a_returned_message_is_counted_and_ends_no_run(
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


def test_runs_ended_by_the_reaper_are_counted(world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-20."""
    run = world.leased(world.tenant())
    age(world, run, lease_expires_at=timedelta(minutes=3))
    job(world, monkeypatch, "run_reaper")
    out = capsys.readouterr().out
    assert totals(out, "Firings") == {(): 1}
    assert totals(out, "Interventions") == {("expired_leases",): 1}
    assert totals(out, "RunsEnded") == {("FAILED", "PLATFORM"): 1}
    assert totals(out, "SettledUsdMicros") == {(): A_FEE}


def test_refunds_by_the_sweeper_are_counted(world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-21."""
    run = world.submit(world.tenant()).run
    age(world, run, created_at=timedelta(minutes=61))
    job(world, monkeypatch, "run_sweeper")
    out = capsys.readouterr().out
    assert totals(out, "Firings") == {(): 1}
    assert totals(out, "Interventions") == {("waiting",): 1}
    assert totals(out, "RefundedUsdMicros") == {(): A_RESERVATION}


def test_an_idle_tick_of_reconcile_emits_zero_for_alarms(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alarms of drift and disputes distinguish a zero from missing data."""
    world.tenant()
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    for name in ("LedgerDriftUsdMicros", "LedgersDisputed", "RunsDisputed", "StuckClaims"):
        assert totals(out, name) == {(): 0}
    for name in ("Interventions", "LeftForNextFiring", "StoppedEarly"):
        assert totals(out, name) == QUIET_RECONCILE
    assert totals(out, "Firings") == {(): 1}


def test_drift_is_measured_by_the_tick_that_finds_it(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the absolute value, repaired or not."""
    tenant = world.tenant()
    world.ledger.client.decrby(world.ledger.keys.balance(tenant.tenant_id), 1_234)
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "LedgerDriftUsdMicros") == {(): 1_234}
    assert totals(out, "Interventions") == QUIET_RECONCILE | {("audits",): 1}
    assert totals(out, "LedgersDisputed") == {(): 0}


def test_a_disputed_ledger_is_counted_until_it_is_decided(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: a receipt that contradicts its row, and a wrong balance."""
    tenant = world.tenant()
    run = world.submit(tenant).run
    work(world, monkeypatch)
    world.ledger.client.hset(world.ledger.keys.receipt(tenant.tenant_id, run.id), "charge_usd_micros", "1")
    world.ledger.client.incrby(world.ledger.keys.balance(tenant.tenant_id), 7)
    for _ in range(2):
        capsys.readouterr()
        job(world, monkeypatch, "run_reconcile")
        assert totals(capsys.readouterr().out, "LedgersDisputed") == {(): 1}


def test_a_disputed_run_ends_once_and_is_counted_until_it_is_decided(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D3."""
    tenant = world.tenant()
    run = claimed(world, tenant)
    world.ledger.refund_full(tenant.tenant_id, run.id)  # the receipt contradicts the claim
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "RunsEnded") == {("DISPUTED", "PLATFORM"): 1}
    assert totals(out, "RunsDisputed") == {(): 1}
    job(world, monkeypatch, "run_reconcile")
    out = capsys.readouterr().out
    assert totals(out, "RunsEnded") == {}
    assert totals(out, "RunsDisputed") == {(): 1}


def test_a_claim_that_reconcile_cannot_finish_is_counted_as_stuck(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-22: a finished claim is an intervention; one that is unfinished a tick later is stuck."""
    run = claimed(world, world.tenant())
    age(world, run, finalize_claimed_at=timedelta(minutes=1))

    def unavailable(*_args: Any, **_more: Any) -> Any:
        raise RedisUnavailable("RedisTimeout")

    with patch("dpp.runs.finalize._move_money", unavailable):
        # A takeover restarts the claim's time: it is stuck after some time without a takeover.
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


def test_a_scan_that_reached_its_limit_is_counted(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tenant()
    monkeypatch.setattr("dpp.runs.jobs.reconcile.SCAN_SECONDS", -1)
    job(world, monkeypatch, "run_reconcile")
    stopped = totals(capsys.readouterr().out, "StoppedEarly")
    assert stopped == QUIET_RECONCILE | {("lost_ledgers",): 1, ("orphans",): 1, ("audits",): 1}


def test_deletions_by_retention_are_counted(world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """RUN-12, D8."""
    run = world.submit(world.tenant()).run
    work(world, monkeypatch)
    age(world, run, retention_until=timedelta(days=31))
    world.sql("UPDATE run_inputs SET purge_after = now() - interval '1 minute'")
    capsys.readouterr()
    job(world, monkeypatch, "run_retention")
    out = capsys.readouterr().out
    assert totals(out, "RunsExpired") == {(): 1}
    assert totals(out, "InputsPurged") == {(): 1}
    assert totals(out, "RunsEnded") == {}
    assert totals(out, "Firings") == {(): 1}


def test_an_idle_ops_cycle_emits_zero_for_alarms(world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIX-6."""
    job(world, monkeypatch, "ops_cycle")
    out = capsys.readouterr().out
    for name in ("EmergencyStop", "TicketReaperBreaker", "TicketAge", "TicketsOpen", "TicketsStale"):
        assert totals(out, name) == {(): 0}
    assert totals(out, "OpsStepsFailed") == {(step,): 0 for step in OPS_STEPS}
    assert totals(out, "Firings") == {(): 1}


def test_a_cycle_counts_executed_cleaned_and_waiting_tickets(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-7: stale tickets do not count as in progress."""
    taken(world, silent=timedelta(hours=25))
    taken(world, silent=timedelta(0))
    filed(world)
    job(world, monkeypatch, "ops_cycle")
    out = capsys.readouterr().out
    assert totals(out, "TicketsCleaned") == {(): 1}
    assert totals(out, "TicketsEnded") == {("DONE",): 1, ("FAILED",): 0, ("LEFT",): 0, ("LOST",): 0}
    assert totals(out, "TicketsInProgress") == {(): 1}
    assert totals(out, "TicketsStale") == {(): 0}


def test_each_cycle_reports_the_stop_while_tickets_age(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-6: the tick counts, and the metric explains why it does nothing."""
    filed(world)
    world.database.using(stop.decide, stopped=True, actor="ops", reason="for a test")
    job(world, monkeypatch, "ops_cycle")
    out = capsys.readouterr().out
    assert totals(out, "EmergencyStop") == {(): 1}
    assert totals(out, "TicketsOpen") == {(): 1}
    assert totals(out, "TicketAge")[()] > 0
    assert totals(out, "Firings") == {(): 1}
    assert totals(out, "TicketsEnded") == {}


def test_the_breaker_and_a_failed_step_are_counted(
    world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TIX-6: neither fails the tick, so only these metrics show them."""
    for _ in range(20):
        taken(world, silent=timedelta(hours=25))
    filed(world)

    def explode(_ticket: object) -> str:
        raise RuntimeError

    invoke("ops_cycle", monkeypatch, world_cycle(world, DLQ_REDRIVE=explode))
    out = capsys.readouterr().out
    assert totals(out, "TicketReaperBreaker") == {(): 1}
    assert totals(out, "TicketsCleaned") == {(): 0}
    assert totals(out, "TicketsStale") == {(): 20}
    assert totals(out, "OpsStepsFailed") == {("ticket_reaper",): 0, ("tickets",): 1}
    assert totals(out, "Firings") == {(): 1}


def test_a_filed_ticket_is_counted_once(world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """TIX-5."""
    file_by_http(world, monkeypatch)
    out = capsys.readouterr().out
    assert totals(out, "TicketsFiled") == {(): 1}
    assert totals(out, "Refusals") == {("AUTH_INVALID",): 1}


def file_by_http(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """File a ticket twice, and once without a key."""
    minted = operator_keys.mint()
    world.database.using(operator_keys.store, minted, "ops")
    effects = world_cycle(world)
    body = {"request_id": str(uuid4()), "request_type": "DLQ_REDRIVE", "reason": "for a test"}
    for token in (minted.token, minted.token, "none"):
        sent = {"Authorization": [f"Bearer {token}"], "Content-Type": ["application/json"]}
        event = gateway_event("POST", "/api/tickets", sent, json.dumps(body))
        invoke("tickets_api", monkeypatch, TicketParts(world.database, effects.reaping, effects.rules), event)


def test_a_failed_tick_is_not_counted(world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the alarm of a silent job is raised."""
    with pytest.raises(InvocationFailed):
        invoke("run_reaper", monkeypatch, None)
    assert totals(capsys.readouterr().out, "Firings") == {}


def test_every_metric_of_the_table_is_emitted(
    api: ApiClient, world: World, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one day of the platform every metric of the table has been emitted."""
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
    """An old id is deleted."""
    world.sql("INSERT INTO lifecycle_seen VALUES ('jira:A-1', now() - interval '31 days')")
    env = Environment("", world.database)
    env.change(classes=registered(Retention(), RetryPolicy().max_retries))
    parts = (env.effects, lambda _role: None)
    report = invoke("lifecycle_chamberlain", monkeypatch, parts)
    assert report["rows"]["seen"] == 1
    assert report["cleanup"]["done"]


def an_event_is_answered(roles: Roles) -> None:
    """An event is polled, carried out by a run and answered in Slack; an irrelevant delivery is ignored."""
    roles.mention()
    roles.sentinel()
    roles.king()
    for _ in range(2):
        roles.general()
    roles.envoy()
    assert roles.delivered() == 202


def an_error_is_analysed_and_decided(world: World, monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> None:
    """An error is reported over HTTP, published, handled, and ignored by a policy."""
    ignore = {"name": "noise", "when": {}, "decide": "IGNORE", "reason": "for a test"}
    world.using(auth_errors.insert_policies, [ignore], "ops", "for a test")
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
    invoke("auth_errors_api", monkeypatch, AuthErrorParts(world.database, Waker(None)), event)
    publishing = PublishEffects(world.database, events, RetryPolicy())
    consuming = ConsumeEffects.of(world.database, events, Waker(None), RetryPolicy())
    for wake_body in ("wake", "beat"):
        invoke("auth_errors_publish", monkeypatch, publishing, {"Records": [{"body": wake_body}]})
        records = [
            {
                "messageId": one.message_id,
                "receiptHandle": one.receipt_handle,
                "body": one.body,
                "eventSource": "aws:sqs",
                "messageAttributes": {
                    name: {"stringValue": value, "dataType": "String"} for name, value in one.attributes.items()
                },
            }
            for one in events.receive(at_most=10, invisible_seconds=600)
        ]
        invoke("auth_errors_consume", monkeypatch, (consuming, events), {"Records": records})


def a_workspace_runs_and_its_provider_is_away(world: World, monkeypatch: pytest.MonkeyPatch, tenant: Tenant) -> None:
    """A workspace is created over HTTP, observed until it runs, and by a tick; then its provider fails."""
    sqs = boto3.client("sqs")
    observe_queue, works = (
        Queue(sqs.create_queue(QueueName=f"{name}-{uuid4().hex}")["QueueUrl"]) for name in ("observe", "works")
    )
    fleet = MemoryProvider()
    effects = ControlEffects(world.database, provider_of(fleet), observe_queue, works)
    headers = {
        "Authorization": [f"Bearer {tenant.token}"],
        "Content-Type": ["application/json"],
        "Idempotency-Key": ["a-key-of-ours"],
    }
    event = gateway_event("POST", "/v1/workspaces", headers, json.dumps({"name": "home"}))
    invoke("workspaces_api", monkeypatch, WorkspaceParts(world.database, observe_queue, 10), event)

    def deliver() -> None:
        for name, queue in (("workspaces_control", observe_queue), ("workspaces_storage", works)):
            received = queue.receive(at_most=10, invisible_seconds=600)
            records = [
                {"messageId": one.message_id, "receiptHandle": "h", "body": one.body, "eventSource": "aws:sqs"}
                for one in received
            ]
            if not records:
                continue
            answer = invoke(name, monkeypatch, effects, {"Records": records})
            assert answer == {"batchItemFailures": []}

    def by_the_clock(name: str) -> None:
        record = {"messageId": "1", "body": json.dumps({"detail-type": "Scheduled Event"})}
        invoke(name, monkeypatch, effects, {"Records": [record | {"eventSource": "aws:sqs"}]})

    deliver()
    assert len(fleet.containers.running) == 1
    by_the_clock("workspaces_control")
    by_the_clock("workspaces_storage")

    def away(call: str) -> None:
        if call.endswith(".observe"):
            raise ProviderUnavailable

    fleet.faults.before = away
    deliver()
