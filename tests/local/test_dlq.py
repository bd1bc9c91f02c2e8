"""`dpp dlq`, as an operator types it, on real servers (RUN-15)."""

import json
import uuid
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dpp.runs.machine import Status
from dpp_cli.errors import StackError
from dpp_cli.main import app
from tests.support.world import World, message_of


class Shell:
    """Runs `dpp dlq` against one world and a dead-letter queue."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.url: str = world.sqs.create_queue(QueueName=f"dead-{uuid.uuid4().hex}")["QueueUrl"]

    def dlq(self, *words: str, answer: str | None = None) -> Result:
        """One command; `answer` is typed at its question."""
        return CliRunner().invoke(app, ["dlq", *words], input=answer)

    def waiting(self) -> str:
        """A run that is QUEUED, its message among the dead; its id."""
        run = self.world.submit(self.world.tenant()).run
        self.put(message_of(run).model_dump_json())
        return run.id

    def put(self, body: str) -> str:
        sent: str = self.world.sqs.send_message(QueueUrl=self.url, MessageBody=body)["MessageId"]
        return sent

    def listed(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.dlq("list", "--json").output)
        return found


@pytest.fixture
def shell(world: World, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr("dpp.runs.operations.dead_letters.WAIT_SECONDS", 0)
    made = Shell(world)
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DPP_RUN_DEAD_LETTER_QUEUE_URL", made.url)
    return made


def test_an_empty_queue_is_said_to_be_empty(shell: Shell) -> None:
    result = shell.dlq("list")
    assert (result.exit_code, result.output) == (0, "0 messages in the dead-letter queue\n")
    assert shell.listed() == []
    assert shell.dlq("redrive", "--all").output == "nothing to do\n"
    assert shell.dlq("drop", "--all").exit_code == 0


def test_the_list_shows_runs_tenants_and_states_and_hides_nothing(shell: Shell) -> None:
    run_id, message_id = shell.waiting(), shell.put("{}")
    for _ in range(2):
        output = shell.dlq("list").output
        assert f"{run_id}  t_" in output
        assert "QUEUED" in output
        assert message_id in output
        assert "unreadable" in output
        assert f"{message_id} can't be read: run_id: missing\n" in output
        assert "2 messages in the dead-letter queue" in output
    by_id = {one["run_id"]: one for one in shell.listed()}
    assert by_id[run_id] | {"message_id": "", "tenant_id": "", "sent_at": ""} == {
        "message_id": "",
        "run_id": run_id,
        "tenant_id": "",
        "state": "QUEUED",
        "status": "QUEUED",
        "money_state": "RESERVED",
        "sent_at": "",
        "receive_count": 3,
        "fault": None,
    }
    assert (by_id[None]["message_id"], by_id[None]["state"]) == (message_id, "UNREADABLE")


def test_a_list_that_was_cut_says_so(shell: Shell) -> None:
    shell.put("a")
    shell.put("b")
    assert "1 message in the dead-letter queue; there may be more" in shell.dlq("list", "--limit", "1").output


def test_a_redrive_tells_what_it_did_with_each(shell: Shell) -> None:
    run_id, message_id = shell.waiting(), shell.put("{}")
    shell.world.messages()
    result = shell.dlq("redrive", "--all")
    assert result.exit_code == 0
    assert f"{run_id}  QUEUED      sent back\n" in result.output
    assert f"{message_id}  unreadable  left\n" in result.output
    assert [str(message.run_id) for message in shell.world.messages()] == [run_id]
    left = shell.dlq("redrive", message_id)
    assert left.exit_code == 1
    forced = json.loads(shell.dlq("redrive", message_id, "--force", "--json").output)
    assert [one["action"] for one in forced] == ["SENT_BACK"]
    assert shell.listed() == []


def test_a_drop_asks_first_and_ends_the_runs(shell: Shell) -> None:
    run_id = shell.waiting()
    refused = shell.dlq("drop", "--all", answer="n\n")
    assert refused.exit_code == 1
    assert "Drop 1 message, and end 1 waiting run with a full refund?" in refused.output
    assert len(shell.listed()) == 1
    dropped = shell.dlq("drop", run_id, answer="y\n")
    assert dropped.exit_code == 0
    assert f"{run_id}  FAILED      run ended, refunded in full; deleted\n" in dropped.output
    assert shell.listed() == []
    [row] = shell.world.sql("SELECT status, last_error_reason_code FROM runs")
    assert row == (Status.FAILED, "MESSAGE_DROPPED")


def test_with_yes_nobody_is_asked(shell: Shell) -> None:
    run_id = shell.waiting()
    answer = json.loads(shell.dlq("drop", run_id, "--yes", "--json").output)
    assert [(one["run_id"], one["action"], one["status"]) for one in answer] == [(run_id, "RUN_ENDED", "FAILED")]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("redrive",), "give ids of runs or messages, or --all"),
        (("drop",), "give ids of runs or messages, or --all"),
        (("drop", "x", "--all"), "not both"),
        (("drop", "--all", "--json"), "add --yes"),
        (("redrive", "8a7f4e52-7d0c-4b7e-9f57-2f8f2f6f4c11"), "not among the first 100 messages: 8a7f4e52"),
        (("drop", "gone", "--yes"), "not among the first 100 messages: gone"),
    ],
)
def test_what_can_not_be_is_refused_in_a_sentence(shell: Shell, words: tuple[str, ...], message: str) -> None:
    result = shell.dlq(*words)
    assert isinstance(result.exception, StackError), result.output
    assert message in str(result.exception)


@pytest.mark.parametrize("missing", ["DATABASE_URL", "REDIS_URL", "DPP_RUN_QUEUE_URL"])
def test_half_of_one_deployment_is_refused(shell: Shell, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Else the messages of one would be dropped as unknown by the rows of another."""
    monkeypatch.delenv(missing)
    result = shell.dlq("list")
    assert isinstance(result.exception, StackError)
    assert f"missing: {missing}" in str(result.exception)


@pytest.mark.parametrize("broken", ["DATABASE_URL", "DPP_RUN_DEAD_LETTER_QUEUE_URL"])
def test_what_does_not_answer_is_named(shell: Shell, monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    shell.waiting()
    nowhere = {"DATABASE_URL": "postgresql://127.0.0.1:1/x", "DPP_RUN_DEAD_LETTER_QUEUE_URL": f"{shell.url}x"}
    monkeypatch.setenv(broken, nowhere[broken])
    result = shell.dlq("list")
    assert isinstance(result.exception, StackError), result.output
    assert str(result.exception).startswith(("can't reach Postgres: ", "sqs is unavailable"))
