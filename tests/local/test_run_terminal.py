"""`dpp run` at a terminal, and what a shell completes of it: processes of their own (RUN-1)."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from dpp_cli.runs.output import noting_ctrl_c
from tests.client.gateway import Gateway
from tests.local.typed import DPP, RUN_ID, SUBMIT, Ended, gateway, tenant

__all__ = ["gateway", "tenant"]  # fixtures


class Terminal:
    """A command whose stderr is a terminal and whose stdout is not."""

    def __init__(self, *words: str, **environ: str) -> None:
        ours, theirs = pty.openpty()
        self._ours = ours
        self.process = subprocess.Popen(
            [DPP, *words],
            stdout=subprocess.PIPE,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120", **environ},
            text=True,
            start_new_session=True,
        )
        os.close(theirs)
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until the text is shown."""
        deadline = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < deadline:
            self._read()
        assert text in self.seen

    def ended(self) -> Ended:
        """Read to its end."""
        assert self.process.stdout is not None
        while self._read():
            pass
        out = self.process.stdout.read()
        self.process.stdout.close()
        code = self.process.wait(60)
        os.close(self._ours)
        return Ended(code, out, self.seen)

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 0.2)[0]:
            return True
        try:
            chunk = os.read(self._ours, 65_536)
        except OSError:  # the last one on the other side is gone
            return False
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)


def test_ctrl_c_while_waiting_says_how_to_go_on(gateway: Gateway) -> None:
    """Exit code 130; the run goes on, and nothing stands on stdout."""
    gateway.works = False
    terminal = Terminal(*SUBMIT, "--wait")
    terminal.wait_for("QUEUED")
    terminal.process.send_signal(signal.SIGINT)
    ended = terminal.ended()
    assert (ended.exit_code, ended.out) == (130, "")
    assert re.search(rf"The run continues; to wait for it: `dpp run wait {RUN_ID.pattern}`", ended.err)
    assert "Traceback" not in ended.err


def test_a_ctrl_c_whose_exception_was_lost_still_counts() -> None:
    """Python drops an exception that is raised in a destructor."""
    before = signal.getsignal(signal.SIGINT)
    with noting_ctrl_c() as check:
        check()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize(("environ", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_a_terminal_sees_a_line_while_it_waits_and_stdout_the_data_alone(
    gateway: Gateway, environ: Mapping[str, str], coloured: bool
) -> None:
    """With NO_COLOR without colours (https://no-color.org)."""
    gateway.works = False
    terminal = Terminal(*SUBMIT, "--wait", "--json", **environ)
    terminal.wait_for("QUEUED, ")
    gateway.works = True
    ended = terminal.ended()
    assert (ended.exit_code, ended.document["status"]) == (0, "COMPLETED")
    assert bool(re.search(r"\x1b\[[0-9;]*3[0-9][0-9;]*m", ended.err)) == coloured


_COMPLETE = """
import json, os, runpy, sys
import dpp_cli.main
sys.argv = sys.argv[1:]
for environ in json.load(sys.stdin):
    if os.fork() == 0:
        os.environ.update(environ)
        runpy.run_path(sys.argv[0], run_name="__main__")
        os._exit(1)
    os.wait()
    print(end=chr(0), flush=True)
"""
"""The command in a process for each environment, forked when its modules are imported."""


def _completed(*lines: str) -> list[list[str]]:
    """Return the completions of the last word of each line."""
    environs = [
        {"_DPP_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))} for line in lines
    ]
    command = [sys.executable, "-c", _COMPLETE, str(DPP)]
    ended = subprocess.run(command, input=json.dumps(environs), capture_output=True, text=True, check=True)
    return [offered.split() for offered in ended.stdout.split("\0")[:-1]]


def test_a_shell_completes_packs_commands_and_options() -> None:
    """Of the whole command."""
    packs, pack, command, options, group = _completed(
        "dpp run submit ", "dpp run submit d", "dpp run w", "dpp run submit decision --m", "dpp tick"
    )
    assert packs == ["ocr", "url", "decision", "compliance", "eval"]
    assert pack == ["decision"]
    assert command == ["wait"]
    assert set(options) == {"--max-cost", "--min-reliability"}
    assert group == ["tickets"]


def test_completion_is_installed_for_a_shell(tmp_path: Path) -> None:
    """`dpp --install-completion`, in a home of its own."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    ended = subprocess.run(
        [DPP, "--install-completion", "bash"], env=environ, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, "bash completion installed" in ended.stdout) == (0, True), ended
    scripts = "\n".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file())
    assert "_DPP_COMPLETE=complete_bash" in scripts
