"""`functions/operate`, called as Lambda calls it, on real servers; and `dpp --stage`, which calls it."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError
from typer.testing import CliRunner

from dpp.platform.config import ConfigurationError
from dpp_cli.errors import StackError
from dpp_cli.layers import operate
from dpp_cli.main import app
from dpp_cli.operator.app import GROUPS
from dpp_cli.paths import DOMAIN_LAYER, FUNCTIONS, ROOT
from operate import handler as function
from operate.request import MAX_REPLY_BYTES, reply
from tests.local.operator import InProcessLambda
from tests.support.api import lambda_context
from tests.support.world import World, message_of

type Invoke = Callable[..., Mapping[str, Any]]


@pytest.fixture
def dead_letters(world: World) -> str:
    """The URL of a dead-letter queue."""
    url: str = world.sqs.create_queue(QueueName=f"dead-{uuid4().hex}")["QueueUrl"]
    return url


@pytest.fixture
def invoke(world: World, dead_letters: str, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Invokes the function with the environment that it has on AWS, URLs for hosts."""
    monkeypatch.setattr("dpp.runs.operations.dead_letters.WAIT_SECONDS", 0)
    for name, value in world.environ().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DPP_RUN_DEAD_LETTER_QUEUE_URL", dead_letters)

    def invoked(*words: str, **more: object) -> Mapping[str, Any]:
        event = json.loads(json.dumps({"words": words, **more}))
        answer: Mapping[str, Any] = json.loads(json.dumps(function.handler(event, lambda_context())))
        return answer

    function.wiring.cache_clear()
    return invoked


def test_a_tenant_is_made_credited_checked_and_given_a_key_that_no_log_line_holds(
    invoke: Invoke, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """RUN-31: the reply is the only place where the key is."""
    caplog.set_level("INFO")
    assert invoke("tenant", "create", "acme-by-function") == {
        "exit_code": 0,
        "stdout": "tenant acme-by-function\n",
        "stderr": "",
    }
    assert "balance 25.0000 USD" in invoke("ledger", "credit", "acme-by-function", "25.0000")["stdout"]
    checked = invoke("ledger", "check", "acme-by-function", "--json")
    (position,) = json.loads(checked["stdout"])
    assert (checked["exit_code"], position["drift_usd_micros"]) == (0, 0)
    token = invoke("key", "create", "acme-by-function")["stdout"].strip()
    assert invoke("key", "revoke", token)["exit_code"] == 2  # pasted whole where its id belongs

    printed = capfd.readouterr()
    logged = printed.out + printed.err + caplog.text + str([record.__dict__ for record in caplog.records])
    assert token.startswith("dpp_")
    assert "'words': ['key', 'create', 'acme-by-function']" in logged
    assert token.split("_")[2] not in logged
    assert "25.0000 USD" not in logged


def test_operators_tickets_and_the_stop_are_at_hand_and_who_asks_must_be_said(
    invoke: Invoke,
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """TIX-1, TIX-6, RUN-31: a function runs as nobody; an operator's key stands in its reply alone."""
    caplog.set_level("INFO")
    monkeypatch.setenv("DPP_REPORTS_BUCKET", world.bucket)
    for name in ("LOGNAME", "USER"):
        monkeypatch.delenv(name, raising=False)
    filing = ("tickets", "file", "EXECUTION_DISABLE", "--reason", "too dear")
    assert invoke(*filing) == {"exit_code": 1, "stdout": "", "stderr": "error: no user name: add --as NAME\n"}
    assert "EXECUTION_DISABLE, OPEN" in invoke(*filing, "--as", "kim")["stdout"]
    assert json.loads(invoke("tickets", "reap", "--as", "kim", "--json")["stdout"])["decision"] == "NONE"
    assert "SET, by kim" in invoke("ops", "stop", "--reason", "a fire", "--as", "kim")["stdout"]
    refused = invoke("tickets", "reap", "--as", "kim")
    assert (refused["exit_code"], refused["stderr"]) == (1, "error: The emergency stop is set (by kim: a fire).\n")
    assert "rejects the value" in invoke("ops", "stop", "--reason", "a\0b", "--as", "kim")["stderr"]

    token = invoke("operator", "add", "kim")["stdout"].strip()
    printed = capfd.readouterr()
    logged = printed.out + printed.err + caplog.text + str([record.__dict__ for record in caplog.records])
    assert token.startswith("dppop_")
    assert token.split("_")[2] not in logged


def test_what_a_command_refuses_is_exit_code_1_and_a_sentence(invoke: Invoke) -> None:
    answer = invoke("ledger", "credit", "nobody", "5")
    assert (answer["exit_code"], answer["stdout"]) == (1, "")
    assert answer["stderr"] == "error: the tenant does not exist; create it with `dpp tenant create ID`\n"
    assert invoke("ledger", "show", "nobody")["exit_code"] == 1


def test_a_dead_letter_is_dropped_with_yes_and_left_where_nobody_can_be_asked(
    invoke: Invoke, world: World, dead_letters: str
) -> None:
    """RUN-15."""
    run = world.submit(world.tenant()).run
    world.sqs.send_message(QueueUrl=dead_letters, MessageBody=message_of(run).model_dump_json())
    asked = invoke("dlq", "drop", run.id)
    assert asked["exit_code"] == 1
    assert asked["stderr"].endswith("error: the command asks for confirmation, which is impossible here: add --yes\n")
    assert [one["run_id"] for one in json.loads(invoke("dlq", "list", "--json")["stdout"])] == [run.id]
    assert "refunded in full" in invoke("dlq", "drop", run.id, "--yes")["stdout"]
    assert invoke("dlq", "list", "--json")["stdout"] == "[]\n"
    assert invoke("dispute", "list")["stdout"] == "no disputed runs\n"


@pytest.mark.parametrize("word", ["local", "demo", "deploy", "destroy", "layers", "synth", "cdk", "--stage"])
def test_what_belongs_to_a_machine_is_refused(invoke: Invoke, word: str) -> None:
    answer = invoke(word, "up")
    assert answer["exit_code"] == 2
    assert f"`{word}` does not run on a deployment; available commands: tenant, key, ledger" in answer["stderr"]


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        {"words": []},
        {"words": "ledger check"},
        {"words": [1]},
        {"words": ["ledger"], "stage": "prod"},
        {"words": ["ledger"], "columns": 3},
        {"words": ["x" * 2_001]},
        {"words": ["x"] * 1_101},
    ],
)
def test_an_event_that_is_no_request_is_reported_so(invoke: Invoke, event: Any) -> None:
    answer = function.handler(event, lambda_context())
    assert (answer["exit_code"], answer["stdout"]) == (2, "")
    assert answer["stderr"].startswith("error: ")
    assert '{"words": ["ledger", "check"]}' in answer["stderr"]


def test_a_wrong_option_is_reported_as_on_a_machine_and_help_is_help(invoke: Invoke) -> None:
    assert "No such option" in invoke("ledger", "check", "--nothing")["stderr"]
    assert invoke("ledger", "check", "--nothing")["exit_code"] == 2
    helped = invoke("ledger", "--help")
    assert (helped["exit_code"], "rebuild" in helped["stdout"]) == (0, True)
    assert invoke("--help")["exit_code"] == 0


def test_a_table_is_as_wide_as_the_caller_s_terminal(invoke: Invoke) -> None:
    invoke("tenant", "create", "acme")
    wide, narrow = (invoke("ledger", "check", columns=columns)["stdout"] for columns in (200, 60))
    assert "acme" in wide
    assert len(narrow.splitlines()) > len(wide.splitlines())
    assert all(len(line) <= 60 for line in narrow.splitlines())


def test_a_reply_that_lambda_would_refuse_is_cut_and_says_so() -> None:
    """Lambda's limit is 6 MB of JSON, in which a character may take twelve bytes."""
    for letter in ("x", "é", "\U0001f600"):
        long = letter * 6_000_000
        answer = reply(0, long, long)
        assert len(json.dumps(answer)) < 6_000_000
        assert len(json.dumps(answer)) > MAX_REPLY_BYTES * 0.7
        assert long.startswith(answer["stdout"])
        printed = answer["stderr"].splitlines()[-2:]
        assert f"stdout was truncated after {len(answer['stdout'])} of 6000000 characters" in printed[0]
        assert "stderr was truncated" in printed[1]
    assert reply(3, "a", "b") == {"exit_code": 3, "stdout": "a", "stderr": "b"}


def test_half_an_environment_fails_before_any_command(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPP_RUN_DEAD_LETTER_QUEUE_URL")
    with pytest.raises(ConfigurationError, match="DPP_RUN_DEAD_LETTER_QUEUE_URL"):
        invoke("tenant", "create", "acme")


def test_the_layer_has_every_module_that_the_function_imports_and_no_other() -> None:
    """On AWS there is nothing else of the command."""
    script = (
        "import sys, json, operate.handler;"
        "operate.handler.operator_app();"
        "print(json.dumps(sorted(name for name in sys.modules if name.split('.')[0] == 'dpp_cli')))"
    )
    path = [str(FUNCTIONS), str(DOMAIN_LAYER / "python"), str(ROOT / "cli")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}; {script}"],
        capture_output=True,
        text=True,
        check=True,
    )
    files = [source.relative_to(ROOT / "cli").with_suffix("") for source in operate.sources()]
    named = {".".join(file.parts).removesuffix(".__init__") for file in files}
    assert set(json.loads(done.stdout)) == named
    assert all(path.is_file() for path in operate.sources())


def _stand_in(monkeypatch: pytest.MonkeyPatch, answer: object = None) -> InProcessLambda:
    made = InProcessLambda(answer)
    monkeypatch.setattr("boto3.client", lambda *_args, **_more: made)
    return made


def test_a_command_with_a_stage_is_run_there_and_ends_as_it_ended_there(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Words, both streams and the exit code come through; options after the command are the function's."""
    there = _stand_in(monkeypatch)
    dpp = CliRunner()
    assert dpp.invoke(app, ["--stage", "prod", "tenant", "create", "acme", "--name", "A B"]).stdout == "tenant acme\n"
    name, event = there.asked[0]
    assert name == "dpp-prod-operate"
    assert event["words"] == ["tenant", "create", "acme", "--name", "A B"]
    refused = dpp.invoke(app, ["--stage", "prod", "ledger", "credit", "nobody", "5"])
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "tenant does not exist" in refused.stderr
    assert "Usage: dpp ledger" in dpp.invoke(app, ["--stage", "prod", "ledger", "--help"]).stdout


@pytest.mark.parametrize("words", [["deploy"], ["local", "up"], ["demo"], ["layers"]])
def test_what_belongs_to_a_machine_is_sent_nowhere(monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    there = _stand_in(monkeypatch)
    result = CliRunner().invoke(app, ["--stage", "prod", *words])
    assert isinstance(result.exception, StackError)
    assert f"`{words[0]}` does not run on a deployment" in str(result.exception)
    assert there.asked == []


def _refusal(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "Invoke")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (_refusal("ResourceNotFoundException"), "function dpp-prod-operate does not exist in eu-west-1"),
        (_refusal("AccessDeniedException"), "grant lambda:InvokeFunction"),
        (_refusal("TooManyRequestsException"), "did nothing: try again"),
        (_refusal("ExpiredTokenException"), "ExpiredTokenException"),
        (NoCredentialsError(), "can't reach AWS: Unable to locate credentials. Set AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="https://x"), "can't reach AWS: Could not connect"),
        (ReadTimeoutError(endpoint_url="https://x"), "may have been executed: check before you repeat it"),
        ({"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out"}, "Sandbox.Timedout: Task timed out"),
    ],
    ids=str,
)
def test_what_goes_wrong_on_the_way_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, answer: object, message: str
) -> None:
    _stand_in(monkeypatch, answer)
    result = CliRunner().invoke(app, ["--stage", "prod", "ledger", "check"])
    assert isinstance(result.exception, StackError), result.output
    assert message in str(result.exception)


def test_a_missing_region_and_a_wrong_stage_are_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    asked = CliRunner().invoke(app, ["--stage", "prod", "ledger", "check"])
    assert "You must specify a region" in str(asked.exception)
    wrong = CliRunner().invoke(app, ["--stage", "Prod!", "ledger", "check"])
    assert "--stage Prod!: not a valid stage name" in str(wrong.exception)


def test_every_group_of_operators_is_a_command_of_dpp() -> None:
    helped = CliRunner().invoke(app, ["--help"]).stdout
    assert all(f" {name} " in helped for name in GROUPS)
