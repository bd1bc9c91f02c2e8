"""`dpp top`, as an operator types it: once, as JSON, on a deployment, and at a terminal that it leaves as it was."""

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from fcntl import ioctl
from uuid import uuid4

import boto3
import pytest

from dpp_cli.errors import StackError
from dpp_cli.top.model import Snapshot
from dpp_cli.top.remote import StageSnapshots
from operate.handler import wiring
from tests.local.operator import InProcessLambda
from tests.local.shell import OperatorShell
from tests.support.world import World
from tests.top.conftest import environ

_SECRET = "what nobody may read"


@pytest.fixture
def given(world: World) -> dict[str, str]:
    """The environment of a deployment, with a run that waits and whose inputs are nobody's business."""
    world.submit(world.tenant(), inputs={"question": _SECRET})
    dead = world.sqs.create_queue(QueueName=f"dead-{uuid4().hex}")["QueueUrl"]
    return environ(world, dead, dead)


@pytest.fixture
def shell(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> OperatorShell:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    return OperatorShell()


@pytest.mark.parametrize("words", [(), ("--once",), ("--interval", "5")])
def test_where_nobody_sits_at_a_terminal_it_looks_once(shell: OperatorShell, words: tuple[str, ...]) -> None:
    page = shell.out("top", *words)
    assert page.startswith("dpp top  by the environment  ")
    assert "RUNS        waiting 1" in page
    assert "\x1b" not in page
    assert _SECRET not in page


def test_one_look_as_json_holds_figures_and_ids_and_nothing_of_anybodys(shell: OperatorShell, world: World) -> None:
    """RUN-31."""
    text = shell.out("top", "--json")
    assert text.isascii()
    found = Snapshot.model_validate_json(text)
    assert found.runs is not None
    assert (found.runs.waiting, found.conditions, found.away) == (1, (), {})
    assert json.loads(text)["tenants"]["nearest"][0]["tenant_id"].startswith("t_")
    assert _SECRET not in text
    assert "A tenant" not in text  # what people call it


def test_a_look_that_is_not_whole_ends_with_1(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    result = shell.run("top", "--once")
    assert result.exit_code == 1
    assert "?? redis does not answer since" in result.stdout
    assert "RUNS        waiting 1" in result.stdout


def test_half_an_environment_is_a_sentence(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPP_RUN_QUEUE_URL")
    assert "missing: DPP_RUN_QUEUE_URL" in shell.refused("top", "--once")
    assert shell.run("top", "--interval", "0.1").exit_code == 2


@pytest.fixture
def there(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcessLambda]:
    """The deployment's function, in this process."""
    made, client = InProcessLambda(), boto3.client
    monkeypatch.setattr(
        "boto3.client", lambda service, **more: made if service == "lambda" else client(service, **more)
    )
    wiring.cache_clear()
    made.invoke(FunctionName="x", Payload=b'{"words": ["--help"]}')  # a first start is logged to stdout
    made.asked.clear()
    yield made
    wiring.cache_clear()


def test_with_a_stage_each_look_is_one_invocation_that_is_drawn_here(
    there: InProcessLambda, shell: OperatorShell
) -> None:
    page = OperatorShell("--stage", "prod").out("top", "--once")
    assert page.startswith("dpp top  stage prod  ")
    assert "RUNS        waiting 1" in page
    [(name, event)] = there.asked
    assert (name, event["words"]) == ("dpp-prod-operate", ["top", "--json"])
    looks = StageSnapshots("prod")
    assert looks.every_seconds == 10
    assert [looks().conditions for _ in range(2)] == [(), ()]
    assert len(there.asked) == 3


def test_the_function_draws_it_where_it_is_asked_without_the_command(there: InProcessLambda) -> None:
    answer = json.loads(there.invoke(FunctionName="x", Payload=b'{"words": ["top"], "columns": 80}')["Payload"].read())
    assert (answer["exit_code"], answer["stderr"]) == (0, "")
    assert "No problems" in answer["stdout"]
    assert max(map(len, answer["stdout"].splitlines())) <= 80


def test_a_look_there_that_is_not_whole_is_shown_and_ends_with_1(
    there: InProcessLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1")
    result = OperatorShell("--stage", "prod").run("top", "--once")
    assert result.exit_code == 1
    assert "?? redis does not answer since" in result.stdout


def test_a_deployment_that_knows_no_such_page_is_reported_in_its_words(
    there: InProcessLambda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("operate.command.refusal", lambda _words: "on a deployment there is no `top`")
    with pytest.raises(StackError, match="there is no `top`"):
        StageSnapshots("prod")()
    monkeypatch.setattr("operate.command.refusal", lambda _words: None)
    monkeypatch.setattr("dpp_cli.operator.remote._invoke", lambda *_: {"exit_code": 0, "stdout": "{}", "stderr": ""})
    with pytest.raises(StackError, match="the deployment's version"):
        StageSnapshots("prod")()


class Terminal:
    """`dpp top` at a terminal of its own."""

    def __init__(self, given: dict[str, str], *, rows: int = 24, columns: int = 80) -> None:
        self.ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self._theirs = theirs
        environment = os.environ | given | {"TERM": "xterm-256color", "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
        for name in ("NO_COLOR", "COLUMNS", "LINES"):  # which would say how large it is, and a worker of pytest's has
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dpp_cli.main", "top", "--interval", "0.5"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment,
            start_new_session=True,
        )
        self.said = ""

    def until(self, text: str) -> None:
        """Read until the text was written."""
        deadline = time.monotonic() + 60
        while text not in self.said:
            assert time.monotonic() < deadline, self.said[-2_000:]
            self._read(0.2)

    def ended(self) -> int:
        """Wait for its end, reading on; the exit code."""
        deadline = time.monotonic() + 30
        while (code := self.process.poll()) is None:
            assert time.monotonic() < deadline, self.said[-2_000:]
            self._read(0.1)
        self._read(0.1)
        return code

    @property
    def modes(self) -> list[object]:
        """Return the terminal's attributes."""
        return termios.tcgetattr(self._theirs)

    def close(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.ours)
        os.close(self._theirs)

    def _read(self, seconds: float) -> None:
        while select.select([self.ours], [], [], seconds)[0]:
            self.said += os.read(self.ours, 65_536).decode(errors="replace")


@pytest.fixture
def terminal(given: dict[str, str]) -> Iterator[Terminal]:
    opened = Terminal(given)
    yield opened
    opened.close()


_SCREEN, _NO_CURSOR = "\x1b[?1049", "\x1b[?25"


@pytest.mark.parametrize(("how", "code"), [("q", 0), ("\x03", 0), (signal.SIGINT, 0), (signal.SIGTERM, 143)], ids=repr)
def test_however_it_ends_the_terminal_is_as_it_was(terminal: Terminal, how: str | signal.Signals, code: int) -> None:
    """SQS does not answer here: the page says so, draws the rest, and hears its keys."""
    terminal.until("RUNS")
    terminal.until("does not answer since")
    assert terminal.modes != terminal.before
    if isinstance(how, str):
        os.write(terminal.ours, b"\x1a")  # Ctrl-Z, which would leave the screen as it is
        os.write(terminal.ours, how.encode())
    else:
        terminal.process.send_signal(how)
    assert terminal.ended() == code
    assert terminal.modes == terminal.before
    for switched in (f"{_SCREEN}h", f"{_NO_CURSOR}l"):
        assert switched in terminal.said
    assert terminal.said.rindex(f"{_SCREEN}l") > terminal.said.rindex(f"{_SCREEN}h")
    assert terminal.said.rindex(f"{_NO_CURSOR}h") > terminal.said.rindex(f"{_NO_CURSOR}l")
    assert "Traceback" not in terminal.said


def test_another_size_of_the_window_is_another_page(terminal: Terminal) -> None:
    terminal.until("TENANTS     smallest")
    ioctl(terminal.ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    terminal.process.send_signal(signal.SIGWINCH)
    terminal.until("TENANTS smallest")
    os.write(terminal.ours, b"q")
    assert terminal.ended() == 0
