"""Each condition appears with the rows, the balance or the message that make it, and goes with them."""

from dataclasses import dataclass

import pytest

from dpp.money.drift import Verdict, audit
from dpp.packs.contract import PackType
from dpp.runs import store
from dpp.runs.execute import execute
from dpp.tickets import stop
from dpp_cli.top.model import Level, Unit
from tests.runs.switched import disable, enable
from tests.support.stored import existing
from tests.support.world import message_of
from tests.top.conftest import Watch

_ID = "'00000000-0000-4000-8000-000000000001'"
_HASH = "repeat('ab', 32)"


def _ago(seconds: int) -> str:
    return f"now() - interval '{seconds} seconds'"


@dataclass(frozen=True)
class Case:
    """Rows that make conditions, those that don't yet, and what ends them."""

    name: str
    makes: tuple[str, ...]
    wrong: tuple[str, ...]
    not_yet: tuple[str, ...]
    ends: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def _ticket(status: str, seconds: int, many: int = 1) -> str:
    taken = "1, 'p', " + _ago(seconds) if status == "IN_PROGRESS" else "0, NULL, NULL"
    return (
        "INSERT INTO tickets (request_id, request_type, params, reason, requested_by, current_status, attempts,"
        " processor_id, last_processed_at, moved_by, created_at, updated_at) SELECT gen_random_uuid(), 'BUDGET_CREDIT',"
        f" '{{}}', 'x', 'kim', '{status}', {taken}, 'kim', {_ago(seconds)}, now() FROM generate_series(1, {many})"
    )


def _receipt(seconds: int, tickets: str = "OK") -> str:
    return (
        f"INSERT INTO ops_run_receipts (run_id, started_at, finished_at, outcome, receipt) SELECT {_ID}, at, at,"
        " 'COMPLETED', jsonb_build_object('outcome', 'COMPLETED', 'finished_at', at, 'tickets',"
        f" jsonb_build_object('outcome', '{tickets}')) FROM (SELECT {_ago(seconds)} AS at) AS one"
    )


def _event(status: str, seconds: int) -> str:
    printed = {
        "PENDING": f"NULL, NULL, {_ago(seconds)}, NULL, NULL",
        "DEAD": "'refused', NULL, NULL, NULL, NULL",
        "PUBLISHED": f"NULL, NULL, NULL, {_ago(seconds)}, {_ago(seconds)}",
    }[status]
    return (
        "INSERT INTO outbox_message (aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash,"
        " status, retry_count, last_error, processing_since, next_retry_at, published_at, last_sent_at, created_at)"
        f" VALUES ('auth_error', {_ID}, 'auth.error.recorded.v1', 'auth_error:recorded:' || {_ID},"
        f" jsonb_build_object('authErrorId', {_ID}), {_HASH}, '{status}', 0, {printed}, {_ago(seconds)})"
    )


def _handled(status: str) -> str:
    waits = f"{_ago(-60)}" if status == "RETRY_WAIT" else "NULL"
    return (
        "INSERT INTO processed_message (outbox_id, status, attempts, next_retry_at, last_error, created_at, updated_at)"
        f" SELECT outbox_id, '{status}', 1, {waits}, 'refused', now(), now() FROM outbox_message"
    )


def _decision(by: str, seconds: int) -> str:
    policy = "1, 'p'" if by == "SYSTEM" else "NULL, NULL"
    return (
        "INSERT INTO auth_error_decision (decision_id, auth_error_id, decision_type, decided_by, actor, reason, inputs,"
        " policy_version, policy_name, from_status, to_status, decided_at) VALUES (gen_random_uuid(),"
        f" {_ID}, 'ESCALATE', '{by}', 'x', 'x', '{{}}', {policy}, 'ANALYSIS_COMPLETED', 'ANALYSIS_COMPLETED',"
        f" {_ago(seconds)})"
    )


def _workspace(phase: str, operation: str = "NONE", seconds: int = 0, error: str = "NULL") -> str:
    op = f"{_ID}, {_ago(seconds)}" if operation != "NONE" else "NULL, NULL"
    return (
        "INSERT INTO workspaces (workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state,"
        " desired_by, last_access_at, phase, operation, op_id, op_started_at, error_info) VALUES"
        f" ({_ID}, 't', now(), 'key-of-it', {_HASH}, 'home', 'STANDBY', 'x', now(), '{phase}', '{operation}', {op},"
        f" {error})"
    )


def _flow(kind: str, seconds: int) -> str:
    at = _ago(seconds)
    return {
        "event": "INSERT INTO lifecycle_events (event_id, source, kind, arrived_by, payload, happened_at, status,"
        f" created_at) VALUES ('github:1', 'GITHUB', 'MENTIONED', 'POLL', '{{}}', {at}, 'PENDING', {at})",
        "task": "INSERT INTO lifecycle_tasks (task_id, event_id, kind, subject, status, attempt, next_look_at,"
        f" created_at) VALUES ('task-20261128-001', 'github:1', 'MENTIONED', '{{}}', 'PENDING', 0, {at}, {at})",
        "message": "INSERT INTO lifecycle_messages (message_id, kind, task_id, dedup_key, body, status, attempts,"
        f" next_attempt_at, created_at) VALUES ('msg-20261128-001', 'TASK_RESULT', 't', 'k', 'x', 'PENDING', 0, {at},"
        f" {at})",
    }[kind]


def _heartbeats(seconds: int, *roles: str) -> str:
    values = ", ".join(f"('{role}', {_ago(seconds)})" for role in roles)
    return f"INSERT INTO lifecycle_heartbeats VALUES {values}"


def _cleanup(seconds: int, status: str = "DONE") -> tuple[str, str]:
    at = _ago(seconds)
    return (
        "INSERT INTO cleanups (cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage,"
        f" warnings) VALUES ({_ID}, 'DAILY', '2026-11-28', 'x', false, 'DONE', {at}, {at}, '[]', '[]')",
        "INSERT INTO cleanup_classes (cleanup_id, class, position, status, before) VALUES"
        f" ({_ID}, 'tombstones', 0, '{status}', now())",
    )


_ALL = ("SENTINEL", "KING", "GENERAL", "ENVOY", "CHAMBERLAIN")
_NO_EVENTS = ("DELETE FROM processed_message", "DELETE FROM outbox_message")
_NO_CLEANUP = ("DELETE FROM cleanup_classes", "DELETE FROM cleanups")
_LOST = '\'{"reason": "DataLost", "message": "x", "is_terminal": true, "retry_count": 0}\''
CASES = [
    Case(
        "a ticket that waits",
        (_ticket("OPEN", 901),),
        ("tickets-waiting",),
        (_ticket("OPEN", 890),),
        ("DELETE FROM tickets",),
    ),
    Case(
        "more stale tickets than the reaper ends",
        (_ticket("IN_PROGRESS", 90_000, 101),),
        ("ticket-reaper-breaker",),
        (_ticket("IN_PROGRESS", 90_000, 10),),
        ("DELETE FROM tickets",),
    ),
    Case(
        "a silent ops cycle",
        (_receipt(301),),
        ("ops-cycle-silent",),
        (_receipt(290),),
        ("DELETE FROM ops_run_receipts",),
    ),
    Case(
        "a step that fails",
        (_receipt(10, "FAILED"),),
        ("ops-step-failed tickets",),
        (_receipt(10, "STOPPED"),),
        ("DELETE FROM ops_run_receipts",),
    ),
    Case("outbox lag", (_event("PENDING", 61),), ("outbox-lag",), (_event("PENDING", 50),), _NO_EVENTS),
    Case("dead in the outbox", (_event("DEAD", 1),), ("outbox-dead",), (), _NO_EVENTS),
    Case(
        "events that nobody takes",
        (_event("PUBLISHED", 301),),
        ("auth-errors-queue-age",),
        (_event("PUBLISHED", 301), _handled("RETRY_WAIT")),
        _NO_EVENTS,
    ),
    Case("dead in the ledger", (_event("PUBLISHED", 1), _handled("DEAD")), ("events-dead",), (), _NO_EVENTS),
    Case(
        "what a policy hands to an operator",
        (_decision("SYSTEM", 10),),
        ("auth-errors-escalated",),
        (_decision("SYSTEM", 301), _decision("OPERATOR", 10)),
        ("DELETE FROM auth_error_decision",),
    ),
    Case(
        "a workspace in error",
        (_workspace("ERROR"),),
        ("workspaces-in-error",),
        (_workspace("STANDBY"),),
        ("DELETE FROM workspaces",),
    ),
    Case(
        "a lost home",
        (_workspace("ERROR", error=_LOST),),
        ("workspaces-in-error", "workspace-home-lost"),
        (),
        ("DELETE FROM workspaces",),
    ),
    Case(
        "an operation that takes too long",
        (_workspace("STANDBY", "STOPPING", 3_601),),
        ("workspace-operation-stuck",),
        (_workspace("STANDBY", "STOPPING", 3_590),),
        ("DELETE FROM workspaces",),
    ),
    Case(
        "a silent role",
        (_heartbeats(601, "KING"), _heartbeats(5, "SENTINEL", "GENERAL", "ENVOY", "CHAMBERLAIN")),
        ("role-dead king",),
        (_heartbeats(590, *_ALL),),
        ("DELETE FROM lifecycle_heartbeats",),
    ),
    Case(
        "a role that was never heard",
        (_heartbeats(5, "SENTINEL", "KING", "GENERAL", "CHAMBERLAIN"),),
        ("role-dead envoy, no heartbeat yet",),
        (_heartbeats(5, "CHAMBERLAIN"),),
        ("DELETE FROM lifecycle_heartbeats",),
    ),
    Case(
        "a source that fails",
        ("INSERT INTO lifecycle_sources VALUES ('JIRA', NULL, NULL, now(), now(), 3, 'a word of theirs')",),
        ("source-failing jira",),
        ("INSERT INTO lifecycle_sources VALUES ('JIRA', NULL, NULL, now(), now(), 2, 'a word of theirs')",),
        ("DELETE FROM lifecycle_sources",),
    ),
    *(
        Case(
            f"a flow that is stuck at a {kind}",
            (_flow(kind, seconds + 1),),
            ("flow-stuck",),
            (_flow(kind, seconds - 10),),
            (f"DELETE FROM lifecycle_{kind}s",),
        )
        for kind, seconds in (("event", 900), ("task", 3_600), ("message", 3_600))
    ),
    Case("a late cleanup", _cleanup(93_601), ("cleanup-late",), _cleanup(93_590), _NO_CLEANUP),
    Case("a tripped class", _cleanup(5, "TRIPPED"), ("cleanup-breaker tombstones",), (), _NO_CLEANUP),
    Case("a class given up", _cleanup(5, "FAILED"), ("cleanup-failed tombstones",), (), _NO_CLEANUP),
    Case(
        "threads that outlived their tasks",
        (f"INSERT INTO lifecycle_threads VALUES ('task-20261128-001', 'c', 't', {_ago(8 * 86_400)})",),
        ("threads-overdue",),
        (f"INSERT INTO lifecycle_threads VALUES ('task-20261128-001', 'c', 't', {_ago(6 * 86_400)})",),
        ("DELETE FROM lifecycle_threads",),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_rows_say_appears_from_its_limit_on_and_goes_with_them(watch: Watch, case: Case) -> None:
    watch.write(*case.not_yet)
    assert watch.wrong() == set()
    watch.write(*case.ends)
    watch.write(*case.makes)
    assert watch.wrong() == set(case.wrong)
    assert all(one.level is Level.ALARM for one in watch.look().conditions)
    watch.write(*case.ends)
    assert watch.wrong() == set()


def test_nothing_is_wrong_in_a_fresh_deployment_and_all_of_it_is_asked(watch: Watch) -> None:
    found = watch.look()
    assert (found.conditions, found.away, found.slow) == ((), {}, ())
    assert all(part is not None for part in found.model_dump().values())
    assert str(found.asof.utcoffset()) == "9:00:00"  # the deployment's zone


def test_drift_that_reconcile_found_stands_for_the_five_minutes_of_its_alarm(watch: Watch) -> None:
    world, tenant = watch.world, watch.world.tenant()
    world.ledger.client.incrby(world.ledger.keys.balance(tenant.tenant_id), 777)
    assert watch.wrong() == set()  # nobody has looked
    assert world.using(audit, world.ledger, tenant.tenant_id).verdict is Verdict.REPAIRED
    found = watch.conditions()
    assert set(found) == {"ledger-drift"}
    assert (found["ledger-drift"].value, found["ledger-drift"].unit) == (777, Unit.USD_MICROS)
    watch.write("UPDATE ledger_rebuilds SET created_at = now() - interval '301 seconds'")
    assert watch.wrong() == set()


def test_a_disputed_ledger_is_wrong_and_so_is_its_drift(watch: Watch) -> None:
    tenant = watch.world.tenant().tenant_id
    watch.write(f"INSERT INTO ledger_audits VALUES ('{tenant}', now(), 'DISPUTED', -5, 'a word')")
    found = watch.conditions()
    assert set(found) == {"ledger-drift", "ledger-disputed"}
    assert found["ledger-drift"].value == 5
    watch.write("DELETE FROM ledger_audits")
    assert watch.wrong() == set()


def test_a_balance_that_redis_has_lost_is_wrong_until_it_is_back(watch: Watch) -> None:
    world, tenant = watch.world, watch.world.tenant()
    world.tenant(credit_usd_micros=0)  # was never given any
    key = world.ledger.keys.balance(tenant.tenant_id)
    balance = world.ledger.client.get(key)
    world.ledger.client.delete(key)
    assert watch.wrong() == {"redis-lost-its-data"}
    assert balance is not None
    world.ledger.client.set(key, str(balance))
    assert watch.wrong() == set()


def test_runs_that_are_stuck_or_disputed_are_wrong(watch: Watch) -> None:
    """D3, RUN-22."""
    world = watch.world
    run = world.leased(world.tenant())
    watch.write(
        "UPDATE runs SET finalize_stage = 'CLAIMED', finalize_token = 'f', finalize_outcome = 'FAILED',"
        " finalize_money_state = 'SETTLED', finalize_charge_usd_micros = 5000, finalize_claimed_at = now()"
    )
    assert watch.wrong() == set()
    part = existing(watch.look().runs)
    assert (part.processing, part.ending) == (0, 1)
    watch.write("UPDATE runs SET finalize_claimed_at = now() - interval '361 seconds'")
    assert watch.wrong() == {"stuck-claims"}
    assert world.using(store.dispute, world.run(run), "a receipt says otherwise") is not None
    assert watch.wrong() == {"runs-disputed"}


def test_a_run_that_waits_is_wrong_after_five_minutes_and_a_parked_one_is_distinguished(watch: Watch) -> None:
    """RUN-15, TIX-1."""
    world = watch.world
    run = world.submit(world.tenant()).run
    part = existing(watch.look().runs)
    assert (part.waiting, part.parked, watch.wrong()) == (1, 0, set())
    watch.write("UPDATE runs SET created_at = now() - interval '400 s', enqueued_at = now() - interval '301 s'")
    found = watch.conditions()
    assert set(found) == {"queue-age"}
    assert 300 < (found["queue-age"].value or 0) < 400

    disable(watch.world.database, PackType.DECISION)
    assert world.using(store.park, world.run(run)) is not None
    found = watch.conditions()
    assert set(found) == {"operations.md#execution-disabled decision".partition("#")[2]}
    assert (found["execution-disabled decision"].level, found["execution-disabled decision"].value) == (Level.NOTE, 1)
    enable(watch.world.database, PackType.DECISION)
    assert watch.wrong() == {"queue-age"}  # never sent again: it waits since it was made


def test_runs_are_counted_by_state_and_those_that_ended_lately_by_how(watch: Watch) -> None:
    world, tenant = watch.world, watch.world.tenant()
    run = world.submit(tenant).run
    [message] = world.queue.receive(at_most=1, invisible_seconds=30)
    execute(message_of(run), message.receipt_handle, world.work_effects())
    world.leased(tenant)
    part = existing(watch.look().runs)
    assert (part.waiting, part.processing, part.completed, part.failed) == (0, 1, 1, 0)
    watch.write("UPDATE runs SET updated_at = now() - interval '301 seconds' WHERE status = 'COMPLETED'")
    part = existing(watch.look().runs)
    assert (part.completed, part.failed) == (0, 0)


@pytest.mark.parametrize("of_events", [False, True])
def test_a_dead_letter_is_wrong_until_it_is_gone(watch: Watch, of_events: bool) -> None:
    url = watch.event_dead_letters if of_events else watch.dead_letters
    watch.world.sqs.send_message(QueueUrl=url, MessageBody="no word of it is shown")
    assert watch.wrong() == {"auth-errors-dead-letters" if of_events else "dead-letters"}
    watch.world.sqs.purge_queue(QueueUrl=url)
    assert watch.wrong() == set()


def test_the_emergency_stop_is_a_note_and_an_alarm_once_it_may_be_forgotten(watch: Watch) -> None:
    """TIX-6: whose it is, never why."""
    watch.world.using(stop.decide, stopped=True, actor="kim", reason="a word")
    found = watch.conditions()
    assert {name: one.level for name, one in found.items()} == {"emergency-stop kim": Level.NOTE}
    assert "a word" not in watch.look().model_dump_json()
    watch.write("UPDATE emergency_stop SET changed_at = now() - interval '1801 seconds'")
    assert watch.conditions()["emergency-stop kim"].level is Level.ALARM
    watch.world.using(stop.decide, stopped=False, actor="kim", reason="over")
    assert watch.wrong() == set()
