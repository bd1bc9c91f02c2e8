"""The examples of README and docs/client.md work as printed, and reports everything that there is."""

import re

import pytest

import dpp_client
from dpp_cli.paths import ROOT
from dpp_client import DppError
from tests.client.gateway import Gateway
from tests.support.world import Tenant

PRINTED = {"README.md": ["0.0500 42"], "docs/client.md": ["0.0500 42", "42"]}


@pytest.mark.parametrize("page", PRINTED)
def test_every_snippet_runs_against_the_real_handlers(
    gateway: Gateway, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], page: str
) -> None:
    """RUN-1: over a socket, one block after the other, as a reader types them."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    with gateway.served() as url:
        monkeypatch.setenv("DPP_API_URL", url)
        monkeypatch.setenv("DPP_API_KEY", tenant.token)
        capsys.readouterr()
        names: dict[str, object] = {}
        for block in blocks:
            exec(compile(block, page, "exec"), names)  # noqa: S102 - the pages are ours
    answered = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("{")]
    assert answered == PRINTED[page]


def test_every_error_is_answered_of() -> None:
    page = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
    errors = {
        name
        for name in dpp_client.__all__
        if isinstance(one := getattr(dpp_client, name), type) and issubclass(one, DppError)
    }
    assert len(errors) > 15
    assert {name for name in errors if f"`{name}`" not in page} == set()
