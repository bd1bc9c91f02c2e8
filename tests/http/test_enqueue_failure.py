"""The message can't be sent (RUN-8): full refund, FAILED/REFUNDED, and the key is free again."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from dpp.money.ledger import _REFUND_FULL
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import QueueUnavailable
from dpp.runs import store
from dpp.runs.machine import Status
from dpp.runs.message import RunMessage
from dpp.runs.submit import SubmitEffects, submit
from tests.http import faulty
from tests.http.faulty import Faulty, assert_heals
from tests.http.state import message_count, raw_messages, work
from tests.support.api import ApiClient, a_body
from tests.support.proxy import Fault
from tests.support.stored import existing
from tests.support.world import World, a_request

KEY = "a-key-of-mine"
type Break = Callable[[Faulty], None]


def test_without_the_queue_the_reservation_is_refunded(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-8, RUN-13: 503 QUEUE_ENQUEUE_FAILED with the run id; the budget is complete, also in the headers."""
    tenant = world.tenant()
    broken.lose_sqs()
    answer = api.submit(tenant, a_body(), key=KEY)
    assert (answer.status, answer.body["reason_code"]) == (503, "QUEUE_ENQUEUE_FAILED")
    assert answer.headers["Retry-After"] == "1"
    assert answer.costs() == ("0.0000", "0.0000", "10.0000", "0")
    position = world.position(tenant)
    assert position.balanced
    assert position.open_reservations_usd_micros == 0
    read = api.read(tenant, answer.body["run_id"])
    assert (read.body["status"], read.body["money_state"]) == ("FAILED", "REFUNDED")
    assert read.body["problem"]["reason_code"] == "QUEUE_ENQUEUE_FAILED"
    assert read.costs() == ("0.2500", "0.0000", "10.0000", "0")


def test_after_an_enqueue_failure_the_same_key_creates_a_new_run(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-8, RUN-4: the key is free for any payload, and taken by the new run."""
    tenant = world.tenant()
    broken.lose_sqs()
    failed = api.submit(tenant, a_body(), key=KEY)
    broken.heal()
    again = api.submit(tenant, a_body(reservation={"max_cost_usd": "0.5"}), key=KEY)
    assert again.status == 202
    assert again.body["run_id"] != failed.body["run_id"]
    assert api.submit(tenant, a_body(reservation={"max_cost_usd": "0.50"}), key=KEY).text == again.text
    assert api.submit(tenant, a_body(), key=KEY).status == 409
    assert message_count(world) == 1
    assert_heals(world, tenant)


def test_a_key_with_a_stale_mapping_is_free(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-8: after a crash, the mapping of a run that was never queued can remain; it blocks no submit."""
    tenant = world.tenant()
    broken.lose_sqs()
    failed = api.submit(tenant, a_body(), key=KEY).body["run_id"]
    broken.heal()
    mapping = f"idem:{tenant.tenant_id}:{KEY}"
    world.ledger.client.hset(mapping, items=["run_id", failed, "payload_hash", "0" * 64])
    again = api.submit(tenant, a_body(), key=KEY)
    assert again.status == 202
    assert world.ledger.client.hget(mapping, "run_id") == again.body["run_id"] != failed


def test_a_message_whose_reply_was_lost_is_refunded_and_harmless(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-8: SQS accepted it and the reply was lost; the submit's claim is first, so the worker skips the run."""
    tenant = world.tenant()
    broken.lose_sqs(reply_only=True)
    answer = api.submit(tenant, a_body(), key=KEY)
    assert (answer.status, answer.body["reason_code"]) == (503, "QUEUE_ENQUEUE_FAILED")
    assert message_count(world) == 1
    work(world)
    assert api.read(tenant, answer.body["run_id"]).body["status"] == "FAILED"
    assert world.position(tenant).charges_usd_micros == 0
    broken.heal()
    assert_heals(world, tenant)


class _WorkerWasFaster(Queue):
    """Accepts the message, lets a worker act on it at once, and loses the reply."""

    def __init__(self, world: World, act: Callable[[], Any]) -> None:
        super().__init__(world.queue_url, lambda: world.sqs)
        self._act = act

    def send(self, body: str) -> None:
        super().send(body)
        self._act()
        raise QueueUnavailable("the reply was lost")


def test_a_worker_faster_than_the_lost_reply_keeps_its_run(world: World) -> None:
    """RUN-8, RUN-19: the worker ended the run, so the submit's claim loses: accepted, charged once, not refunded."""
    tenant = world.tenant()
    queue = _WorkerWasFaster(world, lambda: work(world))
    accepted = submit(a_request(tenant), SubmitEffects(world.database, world.ledger, queue))
    assert not accepted.replayed
    assert world.run(accepted.run).status == Status.COMPLETED
    position = world.position(tenant)
    assert position.balanced
    assert position.charges_usd_micros == 50_000


def test_a_worker_that_just_leased_the_run_keeps_it(world: World) -> None:
    """RUN-8, RUN-16: it is PROCESSING at the time of the claim; its money stays reserved."""
    tenant = world.tenant()

    def lease() -> None:
        [body] = raw_messages(world)
        message = RunMessage.model_validate_json(body)
        run = existing(world.using(store.find, message.tenant_id, message.run_id))
        assert world.using(store.start_processing, run, "lease-of-the-worker")

    effects = SubmitEffects(world.database, world.ledger, _WorkerWasFaster(world, lease))
    accepted = submit(a_request(tenant), effects)
    assert world.run(accepted.run).status == Status.PROCESSING
    assert world.position(tenant).open_reservations_usd_micros == 250_000
    assert world.position(tenant).balanced


SQS_IS_DOWN_AND: dict[str, Break] = {
    "redis is cut at the refund": lambda f: f.redis.arm(Fault.CUT, _REFUND_FULL.sha1.encode()),
    "the refund's reply is lost": lambda f: f.redis.arm(Fault.SWALLOW_REPLY, _REFUND_FULL.sha1.encode()),
    "postgres is cut at the claim": lambda f: f.postgres.arm(Fault.CUT, faulty.CLAIM),
    "the claim's reply is lost": lambda f: f.postgres.arm(Fault.SWALLOW_REPLY, faulty.CLAIM),
    "postgres is silent at the claim": lambda f: f.postgres.arm(Fault.HANG, faulty.CLAIM),
    "postgres is cut at the commit": lambda f: f.postgres.arm(Fault.CUT, faulty.COMMIT),
    "the commit's reply is lost": lambda f: f.postgres.arm(Fault.SWALLOW_REPLY, faulty.COMMIT),
}


def test_an_unfinished_refund_is_finished_by_the_jobs(api: ApiClient, world: World, broken: Faulty) -> None:
    """RUN-8, D3, D5: the 503 reports no refund that was not made; later the run ends and the ledger balances."""
    for fault, happen in SQS_IS_DOWN_AND.items():
        tenant = world.tenant()
        broken.lose_sqs()
        happen(broken)
        answer = api.submit(tenant, a_body(), key=KEY)
        assert broken.postgres.tripped.is_set() or broken.redis.tripped.is_set(), fault
        assert (answer.status, answer.body["reason_code"]) == (503, "QUEUE_ENQUEUE_FAILED"), fault
        assert "goes back" not in answer.body["detail"]
        assert answer.costs() == ("0.0000", "0.0000", "9.7500", "0"), fault
        broken.heal()
        assert_heals(world, tenant)
        run = existing(world.using(store.find, tenant.tenant_id, UUID(answer.body["run_id"])))
        # Claimed: refunded, and the key is free. Not claimed: reconcile sent the message, and the run keeps the key.
        again = api.submit(tenant, a_body(), key=KEY)
        assert again.status == 202
        assert (again.body["run_id"] == run.id) == (run.status == Status.COMPLETED), fault
        assert run.money_state == "REFUNDED" or "claim" in fault
        work(world)
