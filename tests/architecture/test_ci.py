"""CI decides nothing of its own: it calls targets of the Makefile that a developer calls, too."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
_MAKE = re.compile(r"make ([a-z][a-z0-9-]*)(?: [A-Z]+=[A-Za-z0-9_.-]+)*")


def _steps(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_step_that_runs_something_calls_a_target_that_exists(workflow: Path) -> None:
    called = []
    for step in _steps(workflow):
        if "run" in step:
            match = _MAKE.fullmatch(step["run"].strip())
            assert match is not None, step["run"]
            called.append(match.group(1))
        else:
            assert re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]), step["uses"]
    assert called
    assert set(called) <= TARGETS


def test_ci_checks_everything_with_the_python_that_is_named_and_may_only_read() -> None:
    [workflow] = [path for path in WORKFLOWS if path.name == "ci.yml"]
    document = yaml.safe_load(workflow.read_text(encoding="utf-8"))
    steps = _steps(workflow)
    assert "make check" in [step.get("run") for step in steps]
    assert document["permissions"] == {"contents": "read"}
    settings = {step["uses"].partition("@")[0]: step.get("with", {}) for step in steps if "uses" in step}
    assert (ROOT / settings["actions/setup-python"]["python-version-file"]).is_file()
    assert "hashFiles('uv.lock'" in settings["actions/cache"]["key"]
    triggers = document[True]  # YAML 1.1 reads the key `on` so
    assert set(triggers) == {"push", "pull_request"}


def test_a_step_that_is_no_target_would_be_seen() -> None:
    for other in ("make", "make check && rm -rf /", "pytest", "make check\nmake e2e", "make $(TARGET)"):
        assert _MAKE.fullmatch(other) is None
