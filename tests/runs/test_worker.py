"""The worker (RUN-15 … RUN-19): it executes the runs of messages, with the handler as SQS calls it."""

import hashlib
import importlib
import json
import threading
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.process import PackProcess
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import PostgresUnavailable, QueueUnavailable, RedisUnavailable
from dpp.runs import envelope
from dpp.runs.execute import WorkOutcome, execute
from dpp.runs.machine import FinalizeStage, MoneyState, Status
from dpp.runs.message import RunMessage
from dpp.runs.model import Run, envelope_key
from tests.support.api import lambda_context
from tests.support.faults import AwayDatabase, FlakyDatabase
from tests.support.world import A_COST, DONE, ScriptedPacks, World, message_of

FAILED = PackFailure(reason_code=PackReason.PACK_TIMEBOX_EXCEEDED, detail="over its timebox")


def _work(world: World, run: Run, packs: Any = None) -> WorkOutcome:
    return execute(message_of(run), "receipt", world.work_effects(packs)).outcome


def test_run_15_the_message_has_ids_and_no_inputs(world: World) -> None:
    """RUN-15, D8: run_id, tenant_id, pack_type, enqueued_at and schema_version "1"."""
    run = world.submit(world.tenant(), inputs={"question": "a private matter"}).run
    [found] = world.sqs.receive_message(QueueUrl=world.queue_url)["Messages"]
    body = json.loads(found["Body"])
    assert set(body) == {"run_id", "tenant_id", "pack_type", "enqueued_at", "schema_version"}
    assert (body["run_id"], body["tenant_id"], body["pack_type"]) == (run.id, run.tenant_id, "decision")
    assert body["schema_version"] == "1"
    assert body["enqueued_at"].endswith("Z")


def test_run_16_a_message_of_an_ended_run_is_acknowledged_and_skipped(world: World) -> None:
    """RUN-16: the second delivery of a message starts no pack and writes nothing."""
    tenant, packs = world.tenant(), ScriptedPacks()
    run = world.submit(tenant).run
    assert _work(world, run, packs) == WorkOutcome.ENDED
    ended = world.run(run)
    assert _work(world, run, packs) == WorkOutcome.SKIPPED
    assert len(packs.requests) == 1
    assert world.run(run) == ended


def test_run_16_a_message_without_a_run_is_acknowledged(world: World) -> None:
    """RUN-16: the insert of its run was never committed."""
    run = world.submit(world.tenant()).run
    stray = message_of(run).model_copy(update={"run_id": uuid4()})
    assert execute(stray, "receipt", world.work_effects()).outcome == WorkOutcome.SKIPPED


def test_run_16_the_lease_is_in_the_row_and_in_redis_while_the_pack_runs(world: World) -> None:
    """RUN-16, RUN-7: for 120 s in both; afterwards it is deleted in Redis."""
    run = world.submit(world.tenant()).run
    key = world.ledger.keys.lease(run.tenant_id, run.id)
    seen: dict[str, Any] = {}

    class Observing(ScriptedPacks):
        def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
            seen["redis"] = world.ledger.client.get(key)
            seen["ttl"] = world.ledger.client.ttl(key)
            seen["row"] = world.run(run)
            return DONE

    _work(world, run, Observing())
    assert key == f"lease:{run.id}"
    assert seen["row"].status == Status.PROCESSING
    assert seen["redis"] == seen["row"].lease_token
    assert 115 <= seen["ttl"] <= 120
    assert world.ledger.client.get(key) is None


def test_run_16_a_heartbeat_extends_row_redis_and_message_together(world: World) -> None:
    """RUN-16: one heartbeat extends all three; the test waits for a signal, not for a time."""
    run = world.submit(world.tenant()).run
    key = world.ledger.keys.lease(run.tenant_id, run.id)
    beaten = threading.Event()
    extended: list[tuple[str, int]] = []

    class NotingQueue(Queue):
        def extend_visibility(self, receipt_handle: str, seconds: int) -> None:
            extended.append((receipt_handle, seconds))
            beaten.set()

    class Slow(ScriptedPacks):
        def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
            world.ledger.client.pexpire(key, 5_000)
            world.sql("UPDATE runs SET lease_expires_at = now() + interval '5 seconds'")
            assert beaten.wait(10)
            assert world.ledger.client.ttl(key) > 100
            assert world.sql("SELECT lease_expires_at - now() > interval '100 s' FROM runs") == [(True,)]
            return DONE

    effects = world.work_effects(Slow())
    effects = replace(effects, queue=NotingQueue(""), heartbeat_interval_seconds=0.05)
    assert execute(message_of(run), "the receipt", effects).outcome == WorkOutcome.ENDED
    assert extended[0] == ("the receipt", 120)


def test_run_16_a_worker_that_lost_its_lease_stops_its_pack_and_writes_nothing(world: World) -> None:
    """RUN-16, RUN-19: after the heartbeat finds the lease lost, there is no claim, no settle and no object."""
    tenant, run = world.new_run()

    class Overtaken(ScriptedPacks):
        def run(self, request: PackRequest, *, cancelled: threading.Event) -> PackResult:
            world.sql("UPDATE runs SET lease_expires_at = now() - interval '1 second'")
            assert cancelled.wait(10), "the pack is cancelled at once"
            return PackFailure(reason_code=PackReason.PACK_CANCELLED)

    effects = replace(world.work_effects(Overtaken()), heartbeat_interval_seconds=0.05)
    assert execute(message_of(run), "receipt", effects).outcome == WorkOutcome.LEASE_LOST
    left = world.run(run)
    assert (left.status, left.finalize_stage) == (Status.PROCESSING, None)
    assert world.storage.get(envelope_key(left)) is None
    assert world.position(tenant).charges_usd_micros == 0


@pytest.mark.parametrize("error", [PostgresUnavailable, RedisUnavailable, QueueUnavailable])
def test_run_16_a_missed_heartbeat_is_not_a_lost_lease(world: World, error: type[Exception]) -> None:
    """RUN-16: only the row decides that the lease is lost, not a dependency that is unavailable."""
    from dpp.runs.lease import Heartbeat, LeaseEffects

    class Away:
        url = ""

        def using(self, *_: object) -> Any:
            raise error

        def extend_visibility(self, *_: object) -> None:
            raise error

        def close(self) -> None: ...

    run = world.leased(world.tenant())
    database: Any = Away() if error is PostgresUnavailable else world.new_database()
    effects = LeaseEffects(database, world.ledger, Away())  # type: ignore[arg-type]
    heartbeat = Heartbeat(effects, run, "receipt")
    assert heartbeat.extend()
    assert not heartbeat.lost.is_set()


def test_run_17_a_pack_that_overruns_costs_the_minimum_fee(world: World) -> None:
    """RUN-17, DEC-4203: FAILED, SETTLED, the minimum fee, and the reason."""
    tenant, run = world.new_run(reserved_usd_micros=1_000_000)
    assert _work(world, run, ScriptedPacks(FAILED)) == WorkOutcome.ENDED
    ended = world.run(run)
    assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.SETTLED)
    assert ended.actual_cost_usd_micros == ended.minimum_fee_usd_micros == 20_000
    assert ended.last_error_reason_code == "PACK_TIMEBOX_EXCEEDED"
    assert world.position(tenant).balanced


def test_run_17_a_real_pack_that_ignores_its_timebox_is_killed_in_time(world: World) -> None:
    """RUN-17, D6: with the real pack process; the worker then executes the next message."""
    tenant = world.tenant()
    stubborn = world.submit(tenant, timebox_sec=1, inputs={"act": "ignore_sigterm"}).run
    next_one = world.submit(tenant, timebox_sec=5, inputs={"act": "echo"}).run
    with PackProcess({}, executor_module="tests.packs.misbehaving") as packs:
        assert _work(world, stubborn, packs) == WorkOutcome.ENDED
        assert _work(world, next_one, packs) == WorkOutcome.ENDED
    ended = world.run(stubborn)
    assert (ended.status, ended.last_error_reason_code) == (Status.FAILED, "PACK_TIMEBOX_EXCEEDED")
    assert ended.actual_cost_usd_micros == ended.minimum_fee_usd_micros
    assert world.run(next_one).status == Status.COMPLETED


def test_run_18_the_envelope_has_the_locked_members_and_its_hash(world: World) -> None:
    """RUN-18, 001 §9.3, §13.1: its key, its members and its hash."""
    run = world.submit(world.tenant(), trace_id="t_mine").run
    _work(world, run)
    ended = world.run(run)
    made = ended.created_at
    assert ended.result_key == f"dpp/{run.tenant_id}/{made:%Y/%m/%d}/{run.id}/pack_envelope.json"
    found = world.s3.get_object(Bucket=world.bucket, Key=ended.result_key)
    body = found["Body"].read()
    assert found["ContentType"] == "application/json; charset=utf-8"
    assert hashlib.sha256(body).hexdigest() == ended.result_sha256
    document = json.loads(body)
    assert list(document) == [
        "schema_version", "run_id", "pack_type", "status", "generated_at", "cost", "data", "artifacts", "logs", "meta",
    ]  # fmt: skip
    assert document["schema_version"] == "0.4.2.2"
    assert document["status"] == "COMPLETED"
    assert document["cost"] == {"reserved_usd": "0.2500", "used_usd": "0.0500", "minimum_fee_usd": "0.0050"}
    assert document["logs"] == {"discard_log": [], "blocked_log": []}
    assert document["meta"] == {
        "trace_id": "t_mine",
        "profile_version": "PROFILE_DPP_0_4_2_2",
        "tokens_consumed": DONE.tokens_consumed,
        "reliability_score": 0.9,
    }
    assert document["data"] == DONE.data


def test_run_18_the_largest_members_of_a_large_envelope_are_objects_of_their_own(world: World) -> None:
    """RUN-18: only as many as needed; the row names them, and what stands in the envelope for each has its hash."""
    run = world.submit(world.tenant()).run
    found = {"answer_text": "x" * 600_000, "words": ["글"] * 300_000, "pages": 3}
    large = PackSuccess(
        data=found, artifacts={"docx": "y" * 700_000}, reliability_score=1.0, cost_usd_micros=A_COST, tokens_consumed=7
    )
    _work(world, run, ScriptedPacks(large))
    ended = world.run(run)
    assert (ended.status, ended.actual_cost_usd_micros) == (Status.COMPLETED, A_COST)
    pointer = ended.result
    assert pointer is not None
    assert [part.name for part in pointer.parts] == ["data.words", "artifacts.docx"]

    def stored(key: str) -> bytes:
        return bytes(world.s3.get_object(Bucket=world.bucket, Key=key)["Body"].read())

    body = stored(pointer.key)
    assert len(body) <= envelope.MAX_ENVELOPE_BYTES
    document = json.loads(body)
    assert document["data"]["answer_text"] == found["answer_text"]
    for part, value in zip(pointer.parts, [found["words"], "y" * 700_000], strict=True):
        moved = stored(pointer.part_key(part))
        assert json.loads(moved) == value
        section, member = part.name.split(".")
        stands_for = {"name": part.name, "sha256": hashlib.sha256(moved).hexdigest(), "size_bytes": len(moved)}
        assert document[section][member] == {"part": stands_for}
    again = envelope.read_stored(ended, body)
    assert (again.parts, again.tokens_consumed, again.sha256) == (pointer.parts, 7, pointer.sha256)


def test_run_18_an_envelope_that_is_too_large_without_its_parts_is_a_failure(world: World) -> None:
    """RUN-18: the run fails with a reason, at the minimum fee."""
    run = world.submit(world.tenant()).run
    log = [{"url": "x" * 1_100_000}]
    huge = PackSuccess(data={}, discard_log=log, reliability_score=1.0, cost_usd_micros=A_COST, tokens_consumed=7)
    _work(world, run, ScriptedPacks(huge))
    ended = world.run(run)
    assert ended.tokens_consumed == 7
    assert ended.last_error_reason_code == "PACK_OUTPUT_TOO_LARGE"
    assert ended.actual_cost_usd_micros == ended.minimum_fee_usd_micros


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_run_18_a_number_that_json_cannot_hold_is_a_failure_not_a_crash(world: World, number: float) -> None:
    """RUN-18: the envelope is JSON; such a result fails the run, and the worker goes on."""
    run = world.submit(world.tenant()).run
    odd = PackSuccess.model_construct(data={"score": number}, reliability_score=1.0, cost_usd_micros=A_COST)
    _work(world, run, ScriptedPacks(odd))
    assert world.run(run).last_error_reason_code == "PACK_FAILED"


def test_run_24_a_cost_above_the_reservation_is_charged_up_to_it(world: World) -> None:
    """RUN-24: actual ≤ reserved, whatever cost the pack reports; also in the balance."""
    tenant, run = world.new_run(reserved_usd_micros=30_000)
    _work(world, run)
    assert world.run(run).actual_cost_usd_micros == 30_000
    assert world.position(tenant).balance_usd_micros == 10_000_000 - 30_000


def test_a_worker_whose_claim_reply_was_lost_finds_its_claim_again(world: World) -> None:
    """RUN-19, D3: the row was claimed and the connection lost with the reply; the result is not lost."""
    tenant, run = world.new_run()
    packs = ScriptedPacks()
    effects = world.work_effects(packs)
    # Its uses: lease, claim, claim again, commit, commit again.
    database = FlakyDatabase(world.database_url, lose_reply={2, 4})
    world.opened.append(database)
    effects = replace(effects, database=database, pauses_seconds=(0, 0))
    assert execute(message_of(run), "receipt", effects).outcome == WorkOutcome.ENDED
    assert database.uses == 5
    ended = world.run(run)
    assert (ended.status, ended.finalize_stage, ended.version) == (Status.COMPLETED, FinalizeStage.COMMITTED, 3)
    assert world.position(tenant).balanced


class TestHandler:
    """The handler, called with a batch of SQS messages; it returns those that failed."""

    @pytest.fixture
    def handler(self, world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
        module = importlib.import_module("run_worker.handler")
        effects = world.work_effects()
        monkeypatch.setattr(module, "wiring", lambda: effects)
        return module.handler

    def test_run_15_only_the_bad_message_of_a_batch_is_returned(self, world: World, handler: Any) -> None:
        """RUN-15: partial batch failure: the good message is done, the bad one goes to the DLQ in the end."""
        run = world.submit(world.tenant()).run
        batch = [_record("good", message_of(run)), _record("bad", "{}"), _record("worse", "no json")]
        answer = handler({"Records": batch}, lambda_context())
        assert answer == {"batchItemFailures": [{"itemIdentifier": "bad"}, {"itemIdentifier": "worse"}]}
        assert world.run(run).status == Status.COMPLETED

    def test_run_15_a_batch_that_fails_completely_names_each_message(self, world: World, handler: Any) -> None:
        """RUN-15: an exception would hide which messages failed."""
        answer = handler({"Records": [_record("a", "{}"), _record("b", "{}")]}, lambda_context())
        assert [failure["itemIdentifier"] for failure in answer["batchItemFailures"]] == ["a", "b"]

    def test_a_message_is_returned_while_postgres_is_unavailable(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-16: nothing was changed, so the retry finds the run QUEUED and executes it."""
        run = world.submit(world.tenant()).run
        module = importlib.import_module("run_worker.handler")
        away = replace(world.work_effects(), database=AwayDatabase(), pauses_seconds=())
        monkeypatch.setattr(module, "wiring", lambda: away)
        answer = module.handler({"Records": [_record("a", message_of(run))]}, lambda_context())
        assert answer == {"batchItemFailures": [{"itemIdentifier": "a"}]}
        assert world.run(run).status == Status.QUEUED


def _record(message_id: str, body: RunMessage | str) -> dict[str, Any]:
    text = body if isinstance(body, str) else body.model_dump_json()
    return {
        "messageId": message_id,
        "receiptHandle": f"handle-{message_id}",
        "body": text,
        "attributes": {"ApproximateReceiveCount": "1"},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
    }
