"""List, redrive and drop the messages of the dead-letter queue (RUN-15), with real Postgres and Valkey, SQS by moto."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pytest

from dpp.platform.aws.held_messages import Choice
from dpp.platform.aws.queue import Queue
from dpp.platform.errors import DependencyUnavailable, QueueUnavailable, RedisUnavailable
from dpp.runs import finalize
from dpp.runs.execute import execute
from dpp.runs.finalize import FinalizeEffects
from dpp.runs.jobs.reconcile import reconcile
from dpp.runs.jobs.sweep import sweep
from dpp.runs.machine import FinalizeStage, MoneyState, Status
from dpp.runs.model import Run
from dpp.runs.operations import dead_letters
from dpp.runs.operations.dead_letters import (
    Action,
    DeadLetter,
    DeadLetterEffects,
    MessageStatus,
    drop,
    list_dead_letters,
    redrive,
)
from tests.support.world import A_CREDIT, ScriptedPacks, World, message_of

ALL = Choice(100)


@dataclass(frozen=True)
class DeadLetterQueue:
    """The dead-letter queue of one test, and its world."""

    world: World
    queue: Queue

    @property
    def effects(self) -> DeadLetterEffects:
        return DeadLetterEffects(self.world.database, self.world.ledger, self.queue, self.world.queue)

    def put(self, message: Run | str) -> str:
        """Put a message into the queue, as after three failed receives; returns its id."""
        body = message if isinstance(message, str) else message_of(message).model_dump_json()
        sent: str = self.world.sqs.send_message(QueueUrl=self.queue.url, MessageBody=body)["MessageId"]
        return sent

    def bodies(self) -> list[str]:
        """Receive and delete all visible messages."""
        taken: list[str] = []
        while found := self.world.sqs.receive_message(QueueUrl=self.queue.url, MaxNumberOfMessages=10).get("Messages"):
            for message in found:
                taken.append(message["Body"])
                self.world.sqs.delete_message(QueueUrl=self.queue.url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def handled(self, how: Any, choice: Choice = ALL, **options: Any) -> dict[str, Action]:
        """The action on each message, by the id of its run (or of a message without a run)."""
        return {_name(one.dead_letter): one.action for one in how(self.effects, choice, **options)}


def _name(found: DeadLetter) -> str:
    return str(found.content.run_id) if found.content else found.message.message_id


@pytest.fixture
def dlq(world: World, monkeypatch: pytest.MonkeyPatch) -> DeadLetterQueue:
    monkeypatch.setattr(dead_letters, "WAIT_SECONDS", 0)  # moto needs no wait
    url = world.sqs.create_queue(QueueName=f"dead-{uuid4().hex}", Attributes={"VisibilityTimeout": "30"})
    return DeadLetterQueue(world, Queue(url["QueueUrl"], lambda: world.sqs))


@dataclass(frozen=True)
class Each:
    """A run in each status, with its message in the dead-letter queue."""

    queued: Run
    ending: Run
    processing: Run
    ended: Run
    unknown: str
    unreadable: str


@pytest.fixture
def each(world: World, dlq: DeadLetterQueue) -> Each:
    tenant = world.tenant()
    queued, ending, ended = (world.submit(tenant).run for _ in range(3))
    processing = world.leased(tenant)
    execute(message_of(ended), "receipt", world.work_effects())
    world.sql(
        "UPDATE runs SET finalize_stage = 'CLAIMED', finalize_token = 't', finalize_claimed_at = now(),"
        " finalize_outcome = 'FAILED', finalize_money_state = 'REFUNDED', finalize_charge_usd_micros = 0,"
        " last_error_reason_code = 'RESERVATION_EXPIRED', version = version + 1 WHERE run_id = %s",
        (ending.run_id,),
    )
    world.messages()  # the worker received them three times
    unknown = replace(queued, run_id=uuid4())
    for run in (queued, ending, processing, ended, unknown):
        dlq.put(run)
    return Each(queued, ending, processing, ended, unknown.id, dlq.put('{"schema_version": "2"}'))


def test_run_15_each_message_is_listed_with_the_status_of_its_run(dlq: DeadLetterQueue, each: Each) -> None:
    """RUN-15: by the row, not by the message. All messages are visible again at once."""
    seen = {_name(found): found for found in list_dead_letters(dlq.effects, ALL)}
    assert {name: found.status for name, found in seen.items()} == {
        each.queued.id: MessageStatus.QUEUED,
        each.ending.id: MessageStatus.ENDING,
        each.processing.id: MessageStatus.PROCESSING,
        each.ended.id: MessageStatus.ENDED,
        each.unknown: MessageStatus.UNKNOWN,
        each.unreadable: MessageStatus.UNREADABLE,
    }
    assert seen[each.unreadable].fault == "run_id: missing"
    assert {found.message.receive_count for found in seen.values()} == {1}
    assert len(dlq.bodies()) == 6


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("no json", "json_invalid"),
        ("[]", "model_type"),
        ('{"run_id": "x", "tenant_id": "t", "pack_type": "ocr"}', "run_id: uuid_parsing"),
    ],
)
def test_run_31_an_unreadable_message_is_described_without_quoting_it(
    dlq: DeadLetterQueue, body: str, fault: str
) -> None:
    """RUN-31: the member and what was expected. The content may be anything."""
    dlq.put(body)
    (found,) = list_dead_letters(dlq.effects, ALL)
    assert (found.status, found.fault) == (MessageStatus.UNREADABLE, fault)


def test_a_list_has_every_message_once_up_to_its_limit(dlq: DeadLetterQueue) -> None:
    """RUN-15: SQS returns ten messages at most."""
    put = {dlq.put(f"m{number}") for number in range(23)}
    seen = [found.message.message_id for found in list_dead_letters(dlq.effects, ALL)]
    assert len(seen) == 23
    assert set(seen) == put
    assert len(list_dead_letters(dlq.effects, Choice(12))) == 12
    assert len(dlq.bodies()) == 23


class TestRedrive:
    """`redrive` sends messages back to the run queue."""

    def test_waiting_runs_are_sent_back_ended_ones_deleted_others_left(self, dlq: DeadLetterQueue, each: Each) -> None:
        """RUN-15, RUN-20, RUN-22: a run that the reaper or reconcile will end needs no message."""
        assert dlq.handled(redrive) == {
            each.queued.id: Action.SENT_BACK,
            each.ended.id: Action.DELETED,
            each.ending.id: Action.LEFT,
            each.processing.id: Action.LEFT,
            each.unknown: Action.LEFT,
            each.unreadable: Action.LEFT,
        }
        assert [str(message.run_id) for message in dlq.world.messages()] == [each.queued.id]
        assert len(dlq.bodies()) == 4

    def test_a_run_that_was_sent_back_is_executed(self, dlq: DeadLetterQueue) -> None:
        """RUN-15, RUN-16: as if its message had never failed."""
        tenant, run = dlq.world.new_run()
        dlq.world.messages()
        dlq.put(run)
        dlq.handled(redrive)
        (message,) = dlq.world.messages()
        execute(message, "receipt", dlq.world.work_effects())
        assert dlq.world.run(run).status == Status.COMPLETED
        assert dlq.world.position(tenant).balanced

    def test_with_force_the_others_are_sent_back_unchanged(self, dlq: DeadLetterQueue) -> None:
        """RUN-15: for a new release of the worker that can read them."""
        dlq.put("not yet")
        assert set(dlq.handled(redrive, force=True).values()) == {Action.SENT_BACK}
        (message,) = dlq.world.sqs.receive_message(QueueUrl=dlq.world.queue_url)["Messages"]
        assert message["Body"] == "not yet"
        assert dlq.bodies() == []

    def test_only_the_chosen_messages_are_touched(self, dlq: DeadLetterQueue, each: Each) -> None:
        """RUN-15: chosen by the id of a run or of a message."""
        chosen = Choice(100, frozenset({each.queued.id, each.unreadable}))
        assert dlq.handled(redrive, chosen) == {each.queued.id: Action.SENT_BACK, each.unreadable: Action.LEFT}
        assert len(dlq.bodies()) == 5

    def test_a_message_that_could_not_be_sent_stays_in_the_queue(self, dlq: DeadLetterQueue, each: Each) -> None:
        """RUN-15: it is sent first and deleted afterwards. Held messages become visible again."""
        gone = Queue(f"{dlq.world.queue_url}-gone", lambda: dlq.world.sqs)
        with pytest.raises(QueueUnavailable):
            list(redrive(replace(dlq.effects, queue=gone), Choice(100, frozenset({each.queued.id}))))
        assert len(dlq.bodies()) == 6

    def test_a_crash_between_sending_and_deleting_executes_the_run_once(self, dlq: DeadLetterQueue) -> None:
        """RUN-15, RUN-16: the message is in both queues; the second delivery is skipped."""
        world = dlq.world
        tenant, run = world.new_run()
        world.messages()
        dlq.put(run)

        class Crashing(Queue):
            def delete(self, receipt_handle: str) -> None:
                raise QueueUnavailable

        crashing = Crashing(dlq.queue.url, lambda: world.sqs)
        with pytest.raises(QueueUnavailable):
            list(redrive(replace(dlq.effects, dead_letters=crashing), ALL))
        assert dlq.handled(redrive) == {run.id: Action.SENT_BACK}
        first, second = world.messages()
        packs = ScriptedPacks()
        for message in (first, second):
            execute(message, "receipt", world.work_effects(packs))
        assert len(packs.requests) == 1
        assert world.position(tenant).charges_usd_micros == 50_000


class TestDrop:
    """`drop` deletes messages and ends the runs that waited for them."""

    def test_a_waiting_run_ends_at_once_with_a_full_refund(self, dlq: DeadLetterQueue) -> None:
        """RUN-15, RUN-19, RUN-21: FAILED with a reason, without waiting for the sweeper."""
        world = dlq.world
        tenant, run = world.new_run()
        dlq.put(run)
        assert dlq.handled(drop) == {run.id: Action.RUN_ENDED}
        ended = world.run(run)
        assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.REFUNDED)
        assert (ended.actual_cost_usd_micros, ended.finalize_stage) == (0, FinalizeStage.COMMITTED)
        assert ended.last_error_reason_code == "MESSAGE_DROPPED"
        position = world.position(tenant)
        assert (position.balance_usd_micros, position.balanced) == (A_CREDIT, True)
        assert dlq.bodies() == []

    def test_every_message_is_deleted_and_no_other_run_is_touched(self, dlq: DeadLetterQueue, each: Each) -> None:
        """RUN-15, RUN-20, RUN-22: the worker ends its run, reconcile a claimed one."""
        untouched = [each.ending, each.processing, each.ended]
        before = [dlq.world.run(run) for run in untouched]
        assert dlq.handled(drop) == {
            each.queued.id: Action.RUN_ENDED,
            each.ended.id: Action.DELETED,
            each.ending.id: Action.DELETED,
            each.processing.id: Action.DELETED,
            each.unknown: Action.DELETED,
            each.unreadable: Action.DELETED,
        }
        assert [dlq.world.run(run) for run in untouched] == before
        assert dlq.bodies() == []

    def test_a_run_that_a_worker_claims_first_is_left_to_the_worker(
        self, dlq: DeadLetterQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-19: the claim decides; only the message is deleted."""
        world = dlq.world
        run = world.submit(world.tenant()).run
        dlq.put(run)
        finish = finalize.finish

        def after_the_worker(effects: FinalizeEffects, stale: Run, *rest: Any, **options: Any) -> Run | None:
            execute(message_of(run), "receipt", world.work_effects())
            return finish(effects, stale, *rest, **options)

        monkeypatch.setattr("dpp.runs.operations.dead_letters.finalize.finish", after_the_worker)
        (one,) = drop(dlq.effects, ALL)
        assert one.action == Action.DELETED
        assert one.dead_letter.run is not None
        assert one.dead_letter.run.status == Status.COMPLETED
        assert dlq.bodies() == []

    def test_a_crash_after_the_run_ended_leaves_a_message_that_the_next_drop_deletes(
        self, dlq: DeadLetterQueue
    ) -> None:
        """RUN-15: the run is ended first, the message deleted last, the refund made once."""
        world = dlq.world
        tenant, run = world.new_run()
        dlq.put(run)

        class Crashing(Queue):
            def delete(self, receipt_handle: str) -> None:
                raise QueueUnavailable

        crashing = Crashing(dlq.queue.url, lambda: world.sqs)
        with pytest.raises(QueueUnavailable):
            list(drop(replace(dlq.effects, dead_letters=crashing), ALL))
        assert world.run(run).status == Status.FAILED
        assert dlq.handled(drop) == {run.id: Action.DELETED}
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_a_refund_that_failed_is_finished_by_reconcile(
        self, dlq: DeadLetterQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-22, D3: the run is claimed and not refunded; its message stays until the run has ended."""
        world = dlq.world
        tenant, run = world.new_run()
        world.messages()
        dlq.put(run)
        with monkeypatch.context() as away:
            away.setattr(type(world.ledger), "refund_full", _away)
            with pytest.raises(DependencyUnavailable):
                list(drop(dlq.effects, ALL))
        assert world.run(run).finalize_stage == FinalizeStage.CLAIMED
        reconcile(world.reconcile_effects(), world.new_database(), now=world.later(seconds=301))
        assert world.run(run).last_error_reason_code == "MESSAGE_DROPPED"
        assert dlq.handled(drop) == {run.id: Action.DELETED}
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_drop_and_sweeper_refund_a_run_once(self, dlq: DeadLetterQueue) -> None:
        """RUN-21: the second of them finds the run ended."""
        world = dlq.world
        tenant, run = world.new_run()
        dlq.put(run)
        sweep(world.finalize_effects(), world.new_database(), now=world.later(seconds=3_601))
        assert dlq.handled(drop) == {run.id: Action.DELETED}
        assert world.run(run).last_error_reason_code == "RESERVATION_EXPIRED"
        assert world.position(tenant).balance_usd_micros == A_CREDIT


def _away(*_: object) -> None:
    raise RedisUnavailable
