"""`dpp auth-errors outbox`, `redrive` and `dlq`, as an operator types them (AUTH-4, AUTH-5, AUTH-7, AUTH-8)."""

import re
from datetime import timedelta
from typing import Any

import boto3
import pytest

from dpp.auth_errors.model import AuthError
from tests.auth_errors.api import Machinery, Queues
from tests.local.shell import OperatorShell
from tests.local.test_auth_errors import machinery, queues, reported, shell
from tests.support.world import World

__all__ = ["machinery", "queues", "shell"]  # fixtures of the same commands


def died(world: World, machinery: Machinery) -> AuthError:
    """An error whose first event failed as often as it may."""

    def fails(*_: object) -> None:
        raise RuntimeError("a s3cret of the handler")

    error, now = reported(world), world.now()
    for tries in range(7):
        machinery.publish(now + timedelta(minutes=20 * tries))
        if machinery.consume(now + timedelta(minutes=20 * tries), RECORDED=fails) == ["DEAD_LETTERED"]:
            return error
    raise AssertionError("it did not die")


def put(queues: Queues, body: str, **headers: str) -> str:
    attributes: Any = {name: {"DataType": "String", "StringValue": value} for name, value in headers.items()}
    sent: str = boto3.client("sqs").send_message(
        QueueUrl=queues.dead_letters, MessageBody=body, MessageAttributes=attributes
    )["MessageId"]
    return sent


class TestEvents:
    """outbox, redrive (AUTH-4, AUTH-5, AUTH-8)."""

    def test_the_outbox_shows_what_waits_and_what_died(
        self, shell: OperatorShell, world: World, machinery: Machinery
    ) -> None:
        none = shell.run("auth-errors", "outbox")
        assert none.stdout == ""
        assert none.stderr.startswith("0 to publish; 0 waiting for a retry; dead: 0 not published, 0 not")
        dead = died(world, machinery)
        waiting = reported(world)
        shown = shell.run("auth-errors", "outbox")
        assert f"{dead.auth_error_id}  recorded.v1  received, DEAD" in shown.stdout
        assert "builtins.RuntimeError" in shown.stdout
        assert f"{waiting.auth_error_id}  recorded.v1  PENDING, due for 0 min" in shown.stdout
        assert "s3cret" not in shown.output
        assert "1 to publish" in shown.stderr
        assert "1 not handled" in shown.stderr
        [only] = shell.data("auth-errors", "outbox", "--dead")
        assert (only["authErrorId"], only["processedStatus"]) == (str(dead.auth_error_id), "DEAD")
        [only] = shell.data("auth-errors", "outbox", "--waiting")
        assert (only["authErrorId"], only["status"]) == (str(waiting.auth_error_id), "PENDING")
        assert len(shell.data("auth-errors", "outbox", "--dead", "--waiting")) == 2
        assert "next attempt" in shell.out("auth-errors", "show", str(dead.auth_error_id))

    def test_a_dead_event_is_revived_and_handled(
        self, shell: OperatorShell, world: World, machinery: Machinery, queues: Queues
    ) -> None:
        dead = died(world, machinery)
        [only] = shell.data("auth-errors", "outbox", "--dead")
        done = shell.run("auth-errors", "redrive", str(only["outboxId"]))
        assert (done.exit_code, done.stdout) == (0, f"event {only['outboxId']}  revived\n1 revived\n")
        assert "within a minute" in done.stderr
        assert len(queues.waiting(queues.wake)) == 1
        machinery.publish()
        assert machinery.consume(world.now() + timedelta(hours=3)) == ["HANDLED"]
        again = shell.run("auth-errors", "redrive", str(only["outboxId"]), "99")
        assert again.exit_code == 1
        assert f"event {only['outboxId']}  already handled; left\n" in again.stdout
        assert "event 99  not in this outbox\n0 revived\n" in again.stdout
        assert shell.data("auth-errors", "show", str(dead.auth_error_id))["status"] == "ANALYSIS_REQUESTED"

    def test_all_that_is_dead_is_revived(
        self, shell: OperatorShell, world: World, machinery: Machinery, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a wake queue, too: the schedule finds them."""
        monkeypatch.delenv("DPP_AUTH_ERROR_WAKE_QUEUE_URL")
        died(world, machinery)
        never = reported(world)
        for change in (
            "status = 'PROCESSING', next_retry_at = NULL, processing_owner = gen_random_uuid(),"
            " processing_since = now()",
            "status = 'DEAD', processing_owner = NULL, processing_since = NULL, last_error = 'refused'",
        ):
            world.sql(f"UPDATE outbox_message SET {change} WHERE aggregate_id = %s", (never.auth_error_id,))
        assert "DEAD" in shell.run("auth-errors", "outbox", "--dead").stdout
        assert shell.run("auth-errors", "redrive", "--all-dead").stdout.endswith("2 revived\n")
        assert shell.out("auth-errors", "redrive", "--all-dead") == "no dead events\n"
        assert shell.data("auth-errors", "outbox", "--dead") == []

    @pytest.mark.parametrize(
        ("words", "message"), [((), "give either event ids or --all-dead"), (("1", "--all-dead"), "not both")]
    )
    def test_what_is_to_be_redriven_must_be_said(
        self, shell: OperatorShell, words: tuple[str, ...], message: str
    ) -> None:
        assert message in shell.refused("auth-errors", "redrive", *words)
        assert shell.run("auth-errors", "redrive", "x").exit_code == 2


class TestDeadLetters:
    """dlq (AUTH-7)."""

    def test_an_empty_queue_is_said_to_be_empty(self, shell: OperatorShell) -> None:
        assert shell.out("auth-errors", "dlq", "list") == "0 messages in the dead-letter queue\n"
        assert shell.data("auth-errors", "dlq", "list") == []
        assert shell.out("auth-errors", "dlq", "redrive", "--all") == "nothing to do\n"
        assert shell.out("auth-errors", "dlq", "drop", "--all") == "nothing to do\n"

    def test_each_is_shown_with_its_reason_and_hidden_from_nobody(
        self, shell: OperatorShell, world: World, machinery: Machinery, queues: Queues
    ) -> None:
        died(world, machinery)
        bad = put(queues, "s3cret", outboxId="x\x1b", deadLetterReason="BAD_HEADER", deadLetterDetail="outboxId")
        bare = put(queues, "s3cret")
        for _ in range(2):
            shown = shell.out("auth-errors", "dlq", "list")
            assert "MAX_RETRIES_EXCEEDED" in shown
            assert "builtins.RuntimeError" in shown
            assert re.search(rf"{bad} +unknown event +BAD_HEADER", shown)
            assert bare in shown
            assert "3 messages in the dead-letter queue" in shown
            assert "s3cret" not in shown
        by_reason = {one.get("reason"): one for one in shell.data("auth-errors", "dlq", "list")}
        dead = by_reason["MAX_RETRIES_EXCEEDED"]
        assert (dead["state"], dead["eventType"]) == ("DEAD", "auth.error.recorded.v1")
        assert dead["outboxId"] == shell.data("auth-errors", "outbox", "--dead")[0]["outboxId"]
        assert by_reason[None] == {
            "messageId": bare,
            "state": "UNKNOWN",
            "sentAt": by_reason[None]["sentAt"],
            "receiveCount": 3,
        }
        assert "1 message in the dead-letter queue; there may be more" in shell.out(
            "auth-errors", "dlq", "list", "--limit", "1"
        )

    def test_a_redrive_revives_what_is_dead_and_leaves_what_is_no_event(
        self, shell: OperatorShell, world: World, machinery: Machinery, queues: Queues
    ) -> None:
        died(world, machinery)
        bare = put(queues, "{}")
        [event] = shell.data("auth-errors", "outbox", "--dead")
        outbox_id = str(event["outboxId"])
        copy = {"outboxId": outbox_id, "deadLetterReason": "MAX_RETRIES_EXCEEDED"}
        put(queues, "{}", **copy)  # a second copy of the same
        printed = shell.out("auth-errors", "dlq", "redrive", "--all")
        assert f"{outbox_id}  dead: event revived; deleted\n" in printed
        assert f"{outbox_id}  in progress again: deleted\n" in printed
        assert f"{bare}  unknown event: left\n" in printed
        assert shell.data("auth-errors", "outbox", "--dead") == []
        [left] = shell.data("auth-errors", "dlq", "list")
        assert left["messageId"] == bare
        assert shell.run("auth-errors", "dlq", "redrive", bare).exit_code == 1
        machinery.publish()
        assert machinery.consume(world.now() + timedelta(hours=3)) == ["HANDLED"]
        put(queues, "{}", **copy)
        [handled] = shell.data("auth-errors", "dlq", "redrive", outbox_id)
        assert (handled["state"], handled["action"]) == ("HANDLED", "DELETED")

    def test_a_drop_asks_first_and_touches_no_event(
        self, shell: OperatorShell, world: World, machinery: Machinery
    ) -> None:
        died(world, machinery)
        assert shell.run("auth-errors", "dlq", "drop", "--all").exit_code == 1  # nobody answers
        assert len(shell.data("auth-errors", "dlq", "list")) == 1
        [dropped] = shell.data("auth-errors", "dlq", "drop", "--all", "--yes")
        assert (dropped["state"], dropped["action"]) == ("DEAD", "DELETED")
        assert shell.data("auth-errors", "dlq", "list") == []
        assert len(shell.data("auth-errors", "outbox", "--dead")) == 1
        assert shell.run("auth-errors", "redrive", "--all-dead").stdout.endswith("1 revived\n")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("redrive",), "give ids of events or messages, or --all"),
            (("drop", "x", "--all"), "not both"),
            (("drop", "--all", "--json"), "add --yes"),
            (("redrive", "7"), "not among the first 100 messages: 7"),
            (("drop", "gone", "--yes"), "not among the first 100 messages: gone"),
        ],
    )
    def test_what_can_not_be_is_refused_in_a_sentence(
        self, shell: OperatorShell, words: tuple[str, ...], message: str
    ) -> None:
        result = shell.run("auth-errors", "dlq", *words)
        assert message in str(result.exception)

    def test_half_of_one_deployment_is_refused_and_what_does_not_answer_named(
        self, shell: OperatorShell, queues: Queues, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL", f"{queues.dead_letters}x")
        assert shell.refused("auth-errors", "dlq", "list").startswith("sqs is unavailable")
        monkeypatch.delenv("DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL")
        printed = shell.refused("auth-errors", "dlq", "list")
        assert (
            printed == "the environment is incomplete: DATABASE_URL set; missing: DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL"
        )
        assert shell.run("auth-errors", "outbox").exit_code == 0
