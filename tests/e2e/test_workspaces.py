"""Workspaces on the deployed stack: real processes, real folders, archives in S3 (WS-1 … WS-13)."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from dpp_cli.local.deploy import workspaces
from dpp_cli.paths import state_dir
from tests.e2e.conftest import E2eTenant, Platform

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PATH = "/v1/workspaces"
WITHIN_SECONDS = 120.0  # functions start, and a look that was lost is sent again by a beat half a minute away
POLL_SECONDS = 0.5


@pytest.fixture(scope="module")
def tenant(platform: Platform) -> E2eTenant:
    """A developer."""
    return platform.tenant()


@pytest.fixture
def made(platform: Platform, tenant: E2eTenant) -> Iterator[str]:
    """A workspace that runs; nothing of it is left."""
    answer = _asked(platform, tenant, "POST", PATH, {"name": "end to end"}, key=f"key-{uuid4()}")
    assert answer.status_code == 201
    workspace_id = str(answer.json()["workspace_id"])
    _reached(platform, tenant, workspace_id, "RUNNING")
    yield workspace_id
    _asked(platform, tenant, "PATCH", f"{PATH}/{workspace_id}", {"desired_state": "PENDING"})
    if _read(platform, tenant, workspace_id)["phase"] != "ERROR":
        _reached(platform, tenant, workspace_id, "PENDING")
    assert _asked(platform, tenant, "DELETE", f"{PATH}/{workspace_id}").status_code == 202
    _reached(platform, tenant, workspace_id, "DELETED")


def _asked(
    platform: Platform, tenant: E2eTenant, method: str, path: str, body: object = None, *, key: str = ""
) -> httpx.Response:
    sent: dict[str, Any] = {} if body is None else {"json": body}
    return platform.call(method, path, tenant, headers={"Idempotency-Key": key} if key else {}, **sent)


def _read(platform: Platform, tenant: E2eTenant, workspace_id: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _asked(platform, tenant, "GET", f"{PATH}/{workspace_id}").json()
    return found


def _reached(platform: Platform, tenant: E2eTenant, workspace_id: str, phase: str) -> None:
    deadline = time.monotonic() + WITHIN_SECONDS
    while True:
        found = _read(platform, tenant, workspace_id)
        if found["phase"] == phase and found["operation"] == "NONE":
            return
        assert time.monotonic() < deadline, f"not {phase} yet: {found}"
        time.sleep(POLL_SECONDS)


def _want(platform: Platform, tenant: E2eTenant, workspace_id: str, wanted: str) -> None:
    answer = _asked(platform, tenant, "PATCH", f"{PATH}/{workspace_id}", {"desired_state": wanted})
    assert answer.status_code == 200
    _reached(platform, tenant, workspace_id, wanted)


def _volume(workspace_id: str) -> Path:
    return workspaces(state_dir()) / "volumes" / f"ws-{workspace_id}-home"


def _container(workspace_id: str) -> int | None:
    """The pid of the process that is the container."""
    wanted = f"DPP_CONTAINER=ws-{workspace_id}".encode()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and wanted in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
        except OSError:
            continue
    return None


def test_a_home_comes_back_from_its_archive_as_it_was(platform: Platform, tenant: E2eTenant, made: str) -> None:
    """WS-10 … WS-12: over S3, with nothing of it on the disk in between."""
    (_volume(made) / "home" / "한글 이름.txt").write_text("what a developer has", encoding="utf-8")
    _want(platform, tenant, made, "ARCHIVED")
    assert not _volume(made).exists()
    assert _container(made) is None
    _want(platform, tenant, made, "RUNNING")
    assert (_volume(made) / "home" / "한글 이름.txt").read_text(encoding="utf-8") == "what a developer has"
    assert _container(made) is not None


def test_a_container_that_is_killed_comes_back_by_itself(platform: Platform, tenant: E2eTenant, made: str) -> None:
    """WS-1: the platform was not notified; the fleet's observation finds it (WS-5)."""
    pid = _container(made)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + WITHIN_SECONDS
    while _container(made) in {pid, None}:
        assert time.monotonic() < deadline, "nobody started it again"
        time.sleep(POLL_SECONDS)
    _reached(platform, tenant, made, "RUNNING")


def test_what_runs_is_not_deleted(platform: Platform, tenant: E2eTenant, made: str) -> None:
    """WS-8."""
    refused = _asked(platform, tenant, "DELETE", f"{PATH}/{made}")
    assert (refused.status_code, refused.json()["reason_code"]) == (409, "WORKSPACE_NOT_DELETABLE")
    assert refused.json()["phase"] == "RUNNING"
