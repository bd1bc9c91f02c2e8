"""`dpp operator`, as an operator types it, on real servers (TIX-5)."""

from uuid import UUID

import pytest

from dpp.platform.keys import api_keys, operator_keys
from tests.local.shell import OperatorShell
from tests.support.stored import existing
from tests.support.world import World


def test_a_key_is_shown_once_and_opens_until_it_is_revoked(shell: OperatorShell, world: World) -> None:
    """TIX-5: it names its operator; it is no tenant's key."""
    assert shell.out("operator", "list") == "no operator keys; create one with `dpp operator add NAME`\n"
    assert shell.data("operator", "list") == []
    token = shell.out("operator", "add", "kim@ops", "--label", "[red] laptop").strip()
    _, key_id, secret = token.split("_")
    assert existing(world.using(operator_keys.verify, token)).operator_id == "kim@ops"
    assert world.using(api_keys.verify, token) is None

    shown = shell.out("operator", "list")
    assert str(UUID(key_id)) in shown
    assert "[red] laptop" in shown
    [printed] = shell.data("operator", "list")
    assert (printed["operator_id"], printed["status"], printed["label"]) == ("kim@ops", "ACTIVE", "[red] laptop")
    assert printed["last_used_at"] is not None
    assert secret not in shown + str(printed)

    for _ in range(2):  # a repetition finds it so
        assert shell.out("operator", "revoke", key_id) == f"key {UUID(key_id)} of kim@ops is revoked\n"
    assert world.using(operator_keys.verify, token) is None
    assert shell.data("operator", "list")[0]["status"] == "REVOKED"


def test_what_can_not_be_is_refused_in_a_sentence(shell: OperatorShell) -> None:
    assert "1 to 64 of A-Z" in shell.refused("operator", "add", "not a name")
    assert "1 to 64 of A-Z" in shell.refused("operator", "add", "")
    for ours in ("TICKET_REAPER", "OPS_CYCLE"):
        assert "reserved for the platform's own records" in shell.refused("operator", "add", ours)
    assert "operator_keys_label_check" in shell.refused("operator", "add", "kim", "--label", "x" * 201)
    assert "operator key 00000000-" in shell.refused("operator", "revoke", "0" * 32)
    assert shell.run("operator", "revoke", "kim").exit_code == 2
    assert shell.data("operator", "list") == []


def test_rows_that_do_not_answer_are_named(shell: OperatorShell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://127.0.0.1:1/x")
    assert shell.refused("operator", "list").startswith("can't reach Postgres: ")
