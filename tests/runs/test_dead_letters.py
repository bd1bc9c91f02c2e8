"""What lands in the dead-letter queue, sent back or dropped (RUN-15): real Postgres and Valkey, SQS by moto."""

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
from dpp.runs.operations.dead_letters import Action, DeadLetterEffects, Standing, drop, look, redrive
from tests.support.world import A_CREDIT, ScriptedPacks, World, message_of

ALL = Choice(100)


@dataclass(frozen=True)
class Letters:
    """The dead-letter queue of one test, and the world around it."""

    world: World
    queue: Queue

    @property
    def effects(self) -> DeadLetterEffects:
        return DeadLetterEffects(self.world.database, self.world.ledger, self.queue, self.world.queue)

    def put(self, message: Run | str) -> str:
        """A message as three failed receives leave it; its id."""
        body = message if isinstance(message, str) else message_of(message).model_dump_json()
        sent: str = self.world.sqs.send_message(QueueUrl=self.queue.url, MessageBody=body)["MessageId"]
        return sent

    def bodies(self) -> list[str]:
        """What anybody else sees in the queue now; taken away."""
        taken: list[str] = []
        while found := self.world.sqs.receive_message(QueueUrl=self.queue.url, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in found:
                taken.append(message["Body"])
                self.world.sqs.delete_message(QueueUrl=self.queue.url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def handled(self, how: Any, choice: Choice = ALL, **options: Any) -> dict[str, Action]:
        """What was done, by the ids of runs (or of messages without one)."""
        return {_name(one.letter): one.action for one in how(self.effects, choice, **options)}


def _name(letter: dead_letters.DeadLetter) -> str:
    return str(letter.content.run_id) if letter.content else letter.message.message_id


@pytest.fixture
def letters(world: World, monkeypatch: pytest.MonkeyPatch) -> Letters:
    monkeypatch.setattr(dead_letters, "WAIT_SECONDS", 0)  # moto knows at once
    url = world.sqs.create_queue(QueueName=f"dead-{uuid4().hex}", Attributes={"VisibilityTimeout": "30"})
    return Letters(world, Queue(url["QueueUrl"], lambda: world.sqs))


@dataclass(frozen=True)
class Each:
    """A run in each standing, its message among the dead letters."""

    queued: Run
    ending: Run
    processing: Run
    ended: Run
    unknown: str
    unreadable: str


@pytest.fixture
def each(world: World, letters: Letters) -> Each:
    tenant = world.tenant()
    queued, ending, ended = (world.submit(tenant).run for _ in range(3))
    processing = world.leased(tenant)
    execute(message_of(ended), "receipt", world.work_effects())
    with world.database.connection() as connection:
        connection.execute(
            "UPDATE runs SET finalize_stage = 'CLAIMED', finalize_token = 't', finalize_claimed_at = now(),"
            " finalize_outcome = 'FAILED', finalize_money_state = 'REFUNDED', finalize_charge_usd_micros = 0,"
            " last_error_reason_code = 'RESERVATION_EXPIRED', version = version + 1 WHERE run_id = %s",
            (ending.run_id,),
        )
    world.messages()  # the worker received them, thrice
    nobodys = replace(queued, run_id=uuid4())
    for run in (queued, ending, processing, ended, nobodys):
        letters.put(run)
    return Each(queued, ending, processing, ended, nobodys.id, letters.put('{"schema_version": "2"}'))


def test_run_15_each_message_is_shown_with_where_its_run_stands(letters: Letters, each: Each) -> None:
    """RUN-15: by the row, not by the message; and the messages are anybody's again at once."""
    seen = {_name(letter): letter for letter in look(letters.effects, ALL)}
    assert {name: letter.standing for name, letter in seen.items()} == {
        each.queued.id: Standing.QUEUED,
        each.ending.id: Standing.ENDING,
        each.processing.id: Standing.PROCESSING,
        each.ended.id: Standing.ENDED,
        each.unknown: Standing.UNKNOWN,
        each.unreadable: Standing.UNREADABLE,
    }
    assert seen[each.unreadable].fault == "run_id: missing"
    assert {letter.message.receive_count for letter in seen.values()} == {1}
    assert len(letters.bodies()) == 6


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("no json", "json_invalid"),
        ("[]", "model_type"),
        ('{"run_id": "x", "tenant_id": "t", "pack_type": "ocr"}', "run_id: uuid_parsing"),
    ],
)
def test_run_31_an_unreadable_message_is_told_without_a_word_of_it(
    letters: Letters, body: str, fault: str
) -> None:
    """RUN-31: which member and what was expected; what stands in it may be anybody's."""
    letters.put(body)
    (letter,) = look(letters.effects, ALL)
    assert (letter.standing, letter.fault) == (Standing.UNREADABLE, fault)


def test_a_look_takes_every_message_once_and_no_more_than_its_limit(letters: Letters) -> None:
    """RUN-15: SQS gives ten at a time."""
    put = {letters.put(f"m{number}") for number in range(23)}
    seen = [letter.message.message_id for letter in look(letters.effects, ALL)]
    assert len(seen) == 23
    assert set(seen) == put
    assert len(look(letters.effects, Choice(12))) == 12
    assert len(letters.bodies()) == 23


class TestRedrive:
    """Back to the queue of runs."""

    def test_a_waiting_run_goes_back_an_ended_one_is_cleared_away_the_rest_stays(
        self, letters: Letters, each: Each
    ) -> None:
        """RUN-15, RUN-20, RUN-22: what the reaper and reconcile will end needs no message."""
        assert letters.handled(redrive) == {
            each.queued.id: Action.SENT_BACK,
            each.ended.id: Action.DELETED,
            each.ending.id: Action.LEFT,
            each.processing.id: Action.LEFT,
            each.unknown: Action.LEFT,
            each.unreadable: Action.LEFT,
        }
        assert [str(message.run_id) for message in letters.world.messages()] == [each.queued.id]
        assert len(letters.bodies()) == 4

    def test_what_was_sent_back_is_worked_on(self, letters: Letters) -> None:
        """RUN-15, RUN-16: as if nothing had been."""
        tenant = letters.world.tenant()
        run = letters.world.submit(tenant).run
        letters.world.messages()
        letters.put(run)
        letters.handled(redrive)
        (message,) = letters.world.messages()
        execute(message, "receipt", letters.world.work_effects())
        assert letters.world.run(run).status == Status.COMPLETED
        assert letters.world.position(tenant).balanced

    def test_with_force_the_rest_goes_back_word_for_word(self, letters: Letters) -> None:
        """RUN-15: a worker that has learned to read it meanwhile."""
        letters.put("not yet")
        assert set(letters.handled(redrive, force=True).values()) == {Action.SENT_BACK}
        (message,) = letters.world.sqs.receive_message(QueueUrl=letters.world.queue_url)["Messages"]
        assert message["Body"] == "not yet"
        assert letters.bodies() == []

    def test_only_what_was_chosen_is_touched(self, letters: Letters, each: Each) -> None:
        """RUN-15: by the id of a run or of a message."""
        chosen = Choice(100, frozenset({each.queued.id, each.unreadable}))
        assert letters.handled(redrive, chosen) == {
            each.queued.id: Action.SENT_BACK,
            each.unreadable: Action.LEFT,
        }
        assert len(letters.bodies()) == 5

    def test_a_message_that_could_not_be_sent_stays_among_the_dead(
        self, letters: Letters, each: Each
    ) -> None:
        """RUN-15: sent first, deleted afterwards; and what is held is shown again."""
        gone = Queue(f"{letters.world.queue_url}-gone", lambda: letters.world.sqs)
        with pytest.raises(QueueUnavailable):
            list(redrive(replace(letters.effects, queue=gone), Choice(100, frozenset({each.queued.id}))))
        assert len(letters.bodies()) == 6

    def test_a_crash_between_sending_and_deleting_makes_one_run_not_two(self, letters: Letters) -> None:
        """RUN-15, RUN-16: the message stands in both queues; the second to come is skipped."""
        world = letters.world
        tenant = world.tenant()
        run = world.submit(tenant).run
        world.messages()
        letters.put(run)

        class Crashing(Queue):
            def delete(self, receipt_handle: str) -> None:
                raise QueueUnavailable

        crashing = Crashing(letters.queue.url, lambda: world.sqs)
        with pytest.raises(QueueUnavailable):
            list(redrive(replace(letters.effects, dead_letters=crashing), ALL))
        assert letters.handled(redrive) == {run.id: Action.SENT_BACK}
        first, second = world.messages()
        packs = ScriptedPacks()
        for message in (first, second):
            execute(message, "receipt", world.work_effects(packs))
        assert len(packs.requests) == 1
        assert world.position(tenant).charges_usd_micros == 50_000


class TestDrop:
    """Deleted, with an end for the run that waited."""

    def test_a_waiting_run_ends_at_once_with_all_its_money(self, letters: Letters) -> None:
        """RUN-15, RUN-19, RUN-21: FAILED, refunded in full, and a reason; nobody waits for the sweeper."""
        world = letters.world
        tenant = world.tenant()
        run = world.submit(tenant).run
        letters.put(run)
        assert letters.handled(drop) == {run.id: Action.RUN_ENDED}
        ended = world.run(run)
        assert (ended.status, ended.money_state) == (Status.FAILED, MoneyState.REFUNDED)
        assert (ended.actual_cost_usd_micros, ended.finalize_stage) == (0, FinalizeStage.COMMITTED)
        assert ended.last_error_reason_code == "MESSAGE_DROPPED"
        position = world.position(tenant)
        assert (position.balance_usd_micros, position.balanced) == (A_CREDIT, True)
        assert letters.bodies() == []

    def test_every_message_goes_and_no_other_run_is_touched(self, letters: Letters, each: Each) -> None:
        """RUN-15, RUN-20, RUN-22: a worker's run is the worker's, a claim is reconcile's."""
        untouched = [each.ending, each.processing, each.ended]
        before = [letters.world.run(run) for run in untouched]
        assert letters.handled(drop) == {
            each.queued.id: Action.RUN_ENDED,
            each.ended.id: Action.DELETED,
            each.ending.id: Action.DELETED,
            each.processing.id: Action.DELETED,
            each.unknown: Action.DELETED,
            each.unreadable: Action.DELETED,
        }
        assert [letters.world.run(run) for run in untouched] == before
        assert letters.bodies() == []

    def test_a_worker_that_was_faster_keeps_its_run(
        self, letters: Letters, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-19: the claim decides; the message goes, the run is the winner's."""
        world = letters.world
        run = world.submit(world.tenant()).run
        letters.put(run)
        finish = finalize.finish

        def after_the_worker(effects: FinalizeEffects, stale: Run, *rest: Any, **options: Any) -> Run | None:
            execute(message_of(run), "receipt", world.work_effects())
            return finish(effects, stale, *rest, **options)

        monkeypatch.setattr("dpp.runs.operations.dead_letters.finalize.finish", after_the_worker)
        (one,) = drop(letters.effects, ALL)
        assert one.action == Action.DELETED
        assert one.letter.run is not None
        assert one.letter.run.status == Status.COMPLETED
        assert letters.bodies() == []

    def test_a_crash_after_the_run_ended_leaves_a_message_that_the_next_drop_deletes(
        self, letters: Letters
    ) -> None:
        """RUN-15: the run first, the message last; refunded once."""
        world = letters.world
        tenant = world.tenant()
        run = world.submit(tenant).run
        letters.put(run)

        class Crashing(Queue):
            def delete(self, receipt_handle: str) -> None:
                raise QueueUnavailable

        crashing = Crashing(letters.queue.url, lambda: world.sqs)
        with pytest.raises(QueueUnavailable):
            list(drop(replace(letters.effects, dead_letters=crashing), ALL))
        assert world.run(run).status == Status.FAILED
        assert letters.handled(drop) == {run.id: Action.DELETED}
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_a_refund_that_redis_did_not_answer_is_finished_by_reconcile(
        self, letters: Letters, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-22, D3: claimed, not refunded; the message stays until the run has ended."""
        world = letters.world
        tenant = world.tenant()
        run = world.submit(tenant).run
        world.messages()
        letters.put(run)
        with monkeypatch.context() as away:
            away.setattr(type(world.ledger), "refund_full", _away)
            with pytest.raises(DependencyUnavailable):
                list(drop(letters.effects, ALL))
        assert world.run(run).finalize_stage == FinalizeStage.CLAIMED
        reconcile(world.reconcile_effects(), world.new_database(), now=world.later(seconds=301))
        assert world.run(run).last_error_reason_code == "MESSAGE_DROPPED"
        assert letters.handled(drop) == {run.id: Action.DELETED}
        assert world.position(tenant).balance_usd_micros == A_CREDIT

    def test_drop_and_sweeper_refund_a_run_once(self, letters: Letters) -> None:
        """RUN-21: whoever comes second finds it ended."""
        world = letters.world
        tenant = world.tenant()
        run = world.submit(tenant).run
        letters.put(run)
        sweep(world.finalize_effects(), world.new_database(), now=world.later(seconds=3_601))
        assert letters.handled(drop) == {run.id: Action.DELETED}
        assert world.run(run).last_error_reason_code == "RESERVATION_EXPIRED"
        assert world.position(tenant).balance_usd_micros == A_CREDIT


def _away(*_: object) -> None:
    raise RedisUnavailable
