"""The state that a refused request must not change."""

from dataclasses import dataclass

from dpp.money.audit import LedgerPosition
from dpp.packs.contract import PackResult
from dpp.runs.execute import execute
from dpp.runs.message import RunMessage
from tests.support.world import DONE, ScriptedPacks, Tenant, World


@dataclass(frozen=True, slots=True)
class Footprint:
    """A tenant's ledger position, rows, locks and mappings, and the messages in the queue."""

    position: LedgerPosition
    runs: int
    inputs: int
    messages: int
    locks: tuple[str, ...]
    reservations: dict[str, str]


def footprint(world: World, tenant: Tenant) -> Footprint:
    """Read the current state."""
    redis, tenant_id = world.ledger.client, tenant.tenant_id
    ((runs, inputs),) = world.sql("SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM run_inputs)")
    reserved = redis.hgetall(world.ledger.keys.reservation_amounts(tenant_id))
    return Footprint(
        position=world.position(tenant),
        runs=runs,
        inputs=inputs,
        messages=message_count(world),
        locks=tuple(str(key) for key in redis.scan_iter(f"idem_lock:{tenant_id}:*", count=10_000)),
        reservations={str(run): str(amount) for run, amount in reserved.items()},
    )


def raw_messages(world: World) -> list[str]:
    """Receive and delete every visible message; returns their texts."""
    taken: list[str] = []
    while found := world.sqs.receive_message(QueueUrl=world.queue_url, MaxNumberOfMessages=10).get("Messages"):
        for message in found:
            taken.append(message["Body"])
            world.sqs.delete_message(QueueUrl=world.queue_url, ReceiptHandle=message["ReceiptHandle"])
    return taken


def message_count(world: World) -> int:
    """Count the messages in the queue without receiving them."""
    name = "ApproximateNumberOfMessages"
    found = world.sqs.get_queue_attributes(QueueUrl=world.queue_url, AttributeNames=[name])
    return int(found["Attributes"][name])


def work(world: World, result: PackResult = DONE) -> None:
    """Execute the runs of all messages in the queue."""
    effects = world.work_effects(ScriptedPacks(result))
    for body in raw_messages(world):
        execute(RunMessage.model_validate_json(body), "receipt-of-the-message", effects)
