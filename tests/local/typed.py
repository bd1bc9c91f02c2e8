"""`dpp run` as a tenant types it, against the real handlers on loopback."""

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpp_cli import main
from tests.client.gateway import Gateway
from tests.support.api import ApiClient
from tests.support.world import Tenant, World

DPP = Path(sys.executable).with_name("dpp")
SUBMIT = ("run", "submit", "decision", "--max-cost", "0.25", "-i", "question=What is the answer?")
RUN_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NOWHERE = "http://127.0.0.1:9"


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    exit_code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        assert self.out.endswith("\n")
        assert self.out.isascii()
        return json.loads(self.out)


@pytest.fixture
def tenant(world: World) -> Tenant:
    return world.tenant()


@pytest.fixture
def gateway(
    api: ApiClient, world: World, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Gateway]:
    """The API on loopback, named by the environment as a tenant has it."""
    opened = Gateway(api, world)
    with opened.served() as url:
        monkeypatch.setenv("DPP_API_URL", url)
        monkeypatch.setenv("DPP_API_KEY", tenant.token)
        monkeypatch.setenv("DPP_LOCAL_STATE", str(tmp_path / "no-stack"))
        yield opened


type Typed = Callable[..., Ended]


@pytest.fixture
def typed(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Typed:
    """`dpp WORDS…` through its entry point, both streams as file descriptors have them."""

    def typing(*words: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["dpp", *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main.run()
        out, err = capfd.readouterr()
        # The handlers of this process log to the same stdout; a function's log is one object a line.
        kept = [line for line in out.splitlines(keepends=True) if not line.startswith(('{"level"', '{"_aws"'))]
        code = ended.value.code
        return Ended(code if isinstance(code, int) else 0, "".join(kept), err)

    return typing
