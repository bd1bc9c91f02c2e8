"""The stack's persistent state and its lock."""

import subprocess
import sys
from pathlib import Path

import pytest

from dpp_cli.errors import StackError
from dpp_cli.local.state import PartRecord, StateStore, exclusive, load_state, running_state


def test_two_commands_do_not_work_on_one_stack_at_once(tmp_path: Path) -> None:
    other = (
        "import sys; from pathlib import Path; from dpp_cli.local.state import exclusive, StackError\n"
        "try:\n    exclusive(Path(sys.argv[1])).__enter__()\n"
        "except StackError as error:\n    sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", other, str(tmp_path)]
    with exclusive(tmp_path):
        refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "another `dpp local` command" in refused.stderr
    assert subprocess.run(command, check=False).returncode == 0


def test_the_state_is_found_again(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.record("postgres", PartRecord(pid=1, birth="b", port=5))
    store.set(outputs={"ApiId": "abc", "Stage": "dev"}, aws_endpoint_url="http://127.0.0.1:4566")
    state = load_state(tmp_path)
    assert state == store.state
    assert state is not None
    assert state.ports == {"postgres": 5}
    assert state.api_base_url == "http://127.0.0.1:4566/_aws/execute-api/abc/dev"


def test_a_stack_that_is_not_up_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="dpp local up"):
        running_state(tmp_path)
    store = StateStore(tmp_path)
    store.record("postgres", PartRecord(pid=1, birth="of another boot", port=5))
    store.set(outputs={"ApiId": "abc", "Stage": "dev"})
    with pytest.raises(StackError, match=r"postgres died: run `dpp local up`"):
        running_state(tmp_path)
