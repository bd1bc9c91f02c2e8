"""A function as a local process behaves as on Lambda where it matters."""

import json
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from dpp_localstack.sandbox import MAX_RESPONSE_BYTES, InitError

from dpp_cli.local.processes import ProcessIdentity
from tests.local.functions import Workbench, answer, invoke

ECHO = "import os\ndef handler(event, context):\n    return {'event': event, 'pid': os.getpid()}\n"
DEAF = (
    "import os, signal, subprocess, sys, time\n"
    "def handler(event, context):\n"
    "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
    "    open(event['pids'], 'w').write(f'{os.getpid()} {child.pid}')\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    time.sleep(600)\n"
)


def test_a_warm_process_is_used_again(workbench: Workbench) -> None:
    sandbox = workbench.sandbox(ECHO)
    sandbox.start()
    first, second = answer(invoke(sandbox, {"n": 1})), answer(invoke(sandbox, {"n": 2}))
    assert (first["event"], second["event"]) == ({"n": 1}, {"n": 2})
    assert first["pid"] == second["pid"]


@pytest.mark.parametrize("module", ["dpp_cli", "rich", "dpp", "localstack", "psycopg", "boto3"])
def test_a_module_that_is_in_no_layer_is_missing_as_on_lambda(workbench: Workbench, module: str) -> None:
    sandbox = workbench.sandbox(f"import {module}\n{ECHO}")
    with pytest.raises(InitError, match=f"No module named '{module}'"):
        sandbox.start()


def test_a_later_layer_covers_an_earlier_one_and_the_code_covers_both(workbench: Workbench) -> None:
    source = "import thing, app\ndef handler(event, context):\n    return [thing.WHOSE, app.__file__]\n"
    layers = ({"thing": "WHOSE = 'first'", "app": "x"}, {"thing": "WHOSE = 'second'"})
    sandbox = workbench.sandbox(source, layers=layers)
    sandbox.start()
    whose, file = answer(invoke(sandbox))
    assert whose == "second"
    assert file.endswith("code/app.py")


def test_nothing_of_our_environment_is_seen(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_SECRET", "x")
    sandbox = workbench.sandbox(
        "import os\ndef handler(event, context):\n    return dict(os.environ)\n", environment={"THEIRS": "y"}
    )
    sandbox.start()
    seen = answer(invoke(sandbox))
    assert "OUR_SECRET" not in seen
    assert seen["THEIRS"] == "y"


def test_an_exception_is_answered_with_its_type_and_the_process_lives_on(workbench: Workbench) -> None:
    sandbox = workbench.sandbox(
        "import os\ndef handler(event, context):\n    if event: raise ValueError('boom')\n    return os.getpid()\n"
    )
    sandbox.start()
    pid = answer(invoke(sandbox))
    outcome = invoke(sandbox, "bad")
    error = json.loads(outcome.body)
    assert outcome.failed
    assert (error["errorType"], error["errorMessage"]) == ("ValueError", "boom")
    assert answer(invoke(sandbox)) == pid


def test_a_timeout_ends_the_process_and_all_it_started(workbench: Workbench, tmp_path: Path) -> None:
    sandbox = workbench.sandbox(DEAF, timeout_seconds=1)
    sandbox.start()
    pids = tmp_path / "pids"
    begun = time.monotonic()
    outcome = invoke(sandbox, {"pids": str(pids)})
    assert time.monotonic() - begun < 60
    assert json.loads(outcome.body)["errorType"] == "Sandbox.Timedout"
    assert "Task timed out after 1.00 seconds" in json.loads(outcome.body)["errorMessage"]
    parent, child = map(int, pids.read_text().split())
    assert is_gone(parent)
    assert is_gone(child)


def test_after_a_crash_the_next_invocation_gets_a_fresh_process(workbench: Workbench) -> None:
    sandbox = workbench.sandbox(
        "import os\ndef handler(event, context):\n    if event: os._exit(3)\n    return os.getpid()\n"
    )
    sandbox.start()
    pid = answer(invoke(sandbox))
    outcome = invoke(sandbox, "die")
    assert json.loads(outcome.body)["errorType"] == "Runtime.ExitError"
    assert "exit status 3" in json.loads(outcome.body)["errorMessage"]
    assert answer(invoke(sandbox)) != pid


def test_a_process_that_dies_between_invocations_is_replaced(workbench: Workbench) -> None:
    sandbox = workbench.sandbox(ECHO)
    sandbox.start()
    pid = answer(invoke(sandbox))["pid"]
    os.kill(pid, signal.SIGKILL)
    while ProcessIdentity.of(pid) is not None:
        time.sleep(0.01)
    assert answer(invoke(sandbox, 1))["event"] == 1


def test_an_init_that_hangs_is_given_up(workbench: Workbench) -> None:
    sandbox = workbench.sandbox("import time\ntime.sleep(600)\n", init_seconds=1)
    with pytest.raises(InitError, match=r"Sandbox\.InitTimedout"):
        sandbox.start()


def test_memory_is_bounded(workbench: Workbench) -> None:
    sandbox = workbench.sandbox(
        "def handler(event, context):\n    return len(bytearray(event << 20))\n", memory_mib=128
    )
    sandbox.start()
    assert answer(invoke(sandbox, 50)) == 50 << 20
    outcome = invoke(sandbox, 2000)
    assert json.loads(outcome.body)["errorType"] == "MemoryError"


def test_an_answer_over_lambdas_limit_is_refused(workbench: Workbench) -> None:
    sandbox = workbench.sandbox("def handler(event, context):\n    return 'x' * event\n")
    sandbox.start()
    assert len(answer(invoke(sandbox, MAX_RESPONSE_BYTES - 2))) == MAX_RESPONSE_BYTES - 2
    outcome = invoke(sandbox, MAX_RESPONSE_BYTES - 1)
    assert json.loads(outcome.body)["errorType"] == "Function.ResponseSizeTooLarge"


def test_output_belongs_to_the_invocation_that_printed_it(workbench: Workbench) -> None:
    sandbox = workbench.sandbox("def handler(event, context):\n    print('said', event)\n")
    sandbox.start()
    assert invoke(sandbox, 1).output == "said 1\n"
    assert invoke(sandbox, 2).output == "said 2\n"


def test_the_deadline_is_the_functions_timeout(workbench: Workbench) -> None:
    sandbox = workbench.sandbox(
        "def handler(event, context):\n    return context.get_remaining_time_in_millis()\n", timeout_seconds=7
    )
    sandbox.start()
    assert 5_000 < answer(invoke(sandbox)) <= 7_000


def is_gone(pid: int) -> bool:
    """Return whether a killed process is gone; the kernel may take a moment on a busy machine."""
    deadline = time.monotonic() + 10
    while ProcessIdentity.of(pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    return ProcessIdentity.of(pid) is None


def test_stopping_ends_an_invocation_under_way_and_starts_nothing_new(workbench: Workbench, tmp_path: Path) -> None:
    sandbox = workbench.sandbox(DEAF, timeout_seconds=60)
    sandbox.start()
    pids = tmp_path / "pids"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(invoke, sandbox, {"pids": str(pids)})
        while not (pids.exists() and " " in pids.read_text()):
            time.sleep(0.01)
        sandbox.stop()
        assert running.result(10).failed
    assert all(is_gone(int(pid)) for pid in pids.read_text().split())
    assert json.loads(invoke(sandbox).body)["errorType"] == "Sandbox.Stopped"


def test_many_environments_at_once_keep_apart(workbench: Workbench) -> None:
    sandboxes = [workbench.sandbox(ECHO) for _ in range(6)]
    barrier = threading.Barrier(len(sandboxes))

    def work(number: int) -> set[int]:
        sandboxes[number].start()
        barrier.wait(30)
        answers = [answer(invoke(sandboxes[number], [number, turn])) for turn in range(20)]
        assert [a["event"] for a in answers] == [[number, turn] for turn in range(20)]
        return {a["pid"] for a in answers}

    with ThreadPoolExecutor(len(sandboxes)) as pool:
        pids = list(pool.map(work, range(len(sandboxes))))
    assert all(len(own) == 1 for own in pids)
    assert len(set.union(*pids)) == len(sandboxes)
