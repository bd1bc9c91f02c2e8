"""API keys (RUN-2, RUN-29)."""

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from dpp.money.credits import create_tenant
from dpp.platform.db.postgres import Connection
from dpp.platform.keys import api_keys
from dpp.platform.keys.api_keys import Caller
from dpp.platform.keys.tokens import MintedKey
from tests.support.stored import existing

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def connection(connection: Connection) -> Connection:
    """A container's connection, with a tenant."""
    create_tenant(connection, "t_acme", "Acme", 77)
    return connection


@pytest.fixture
def key(connection: Connection) -> MintedKey:
    minted = api_keys.mint()
    api_keys.store(connection, minted, "t_acme", "for a test")
    return minted


def _last_used(connection: Connection) -> datetime | None:
    row = existing(connection.execute("SELECT last_used_at FROM api_keys").fetchone())
    return row[0]  # type: ignore[no-any-return]


def _row_version(connection: Connection) -> str:
    row = existing(connection.execute("SELECT xmin::text FROM api_keys").fetchone())
    return str(row[0])


def test_a_key_belongs_to_its_tenant_and_has_its_rate_limit(connection: Connection, key: MintedKey) -> None:
    """RUN-2: with the tenant's rate limit, read in the same query."""
    assert api_keys.verify(connection, key.token) == Caller("t_acme", key.key_id, 77)


def test_only_the_hash_of_the_secret_is_stored(connection: Connection, key: MintedKey) -> None:
    """RUN-29: the table has nothing that can be used as a key."""
    secret = key.token.rsplit("_", 1)[1]
    row = existing(connection.execute("SELECT api_keys::text, key_hash FROM api_keys").fetchone())
    assert secret not in row[0]
    assert row[1] == key.secret_sha256 == hashlib.sha256(secret.encode()).hexdigest()


def test_two_keys_have_nothing_in_common() -> None:
    """RUN-29: 256 random bits each."""
    one, other = api_keys.mint(), api_keys.mint()
    assert one.token.startswith("dpp_")
    assert len({one.token, other.token, one.secret_sha256, other.secret_sha256}) == 4
    assert len(bytes.fromhex(one.token.rsplit("_", 1)[1])) == 32


def test_a_token_appears_only_in_its_own_field(connection: Connection, key: MintedKey) -> None:
    """RUN-31: neither in the key's repr nor in the error of storing a key twice."""
    secret = key.token.rsplit("_", 1)[1]
    assert secret not in repr(key)
    with pytest.raises(psycopg.errors.UniqueViolation) as refused:
        api_keys.store(connection, key, "t_acme")
    assert secret not in str(refused.value)


def test_any_other_token_is_refused(connection: Connection, key: MintedKey) -> None:
    """RUN-2: wrong secret, unknown id or malformed: None, and no use is recorded."""
    token = key.token
    head, secret = token.rsplit("_", 1)
    wrong_last = token[:-1] + ("0" if token[-1] != "0" else "1")
    others = [wrong_last, f"dpp_{uuid4().hex}_{secret}", "dpp_" + "0" * 32 + "_" + "0" * 64]
    others += [token[:-1], f"{token}0", f"{token}\n", f" {token}", f"{token}\x00", token[:-1] + "\uff11"]
    others += [token.upper(), f"dpq{token[3:]}", token.replace("_", "-"), head, f"{head}_", f"_{secret}"]
    others += ["", "dpp_", "dpp_\ud800", "x" * 100_000]
    for other in others:
        assert other != token
        assert api_keys.verify(connection, other) is None, other[:80]
    assert _last_used(connection) is None


@pytest.mark.parametrize(
    "statement", ["UPDATE api_keys SET status = 'REVOKED'", "UPDATE tenants SET status = 'SUSPENDED'"]
)
def test_a_revoked_key_or_a_suspended_tenant_is_refused(connection: Connection, key: MintedKey, statement: str) -> None:
    """RUN-2: at once, even with the right secret, and no use is recorded."""
    connection.execute(statement.encode())
    assert api_keys.verify(connection, key.token) is None
    assert _last_used(connection) is None


@pytest.mark.parametrize("kind", ["right", "wrong secret", "unknown", "malformed"])
def test_every_token_costs_one_comparison_in_constant_time(
    connection: Connection, key: MintedKey, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUN-2: by hmac.compare_digest of two hashes of equal length, whether or not there is a row."""
    compared: list[tuple[str, str]] = []
    real = hmac.compare_digest

    def note(one: str, other: str) -> bool:
        compared.append((one, other))
        return real(one, other)

    monkeypatch.setattr(hmac, "compare_digest", note)
    head, secret = key.token.rsplit("_", 1)
    tokens = {
        "right": key.token,
        "wrong secret": f"{head}_{secret[::-1]}",
        "unknown": f"dpp_{uuid4().hex}_{secret}",
        "malformed": "x",
    }
    api_keys.verify(connection, tokens[kind])
    assert [(len(one), len(other)) for one, other in compared] == [(64, 64)]


def test_the_last_use_is_written_every_ten_minutes_only(connection: Connection, key: MintedKey) -> None:
    """Issue 3: other reads write nothing. The test passes the time (D1)."""
    api_keys.verify(connection, key.token, _NOON)
    assert _last_used(connection) == _NOON
    version = _row_version(connection)
    for minutes in (0, 1, 9, 10):
        with connection.transaction():
            connection.execute("SET TRANSACTION READ ONLY")  # not even a statement without effect
            assert api_keys.verify(connection, key.token, _NOON + timedelta(minutes=minutes)) is not None
    assert (_last_used(connection), _row_version(connection)) == (_NOON, version)
    later = _NOON + timedelta(minutes=10, seconds=1)
    api_keys.verify(connection, key.token, later)
    assert _last_used(connection) == later


def test_a_clock_that_went_back_writes_nothing_and_refuses_no_key(connection: Connection, key: MintedKey) -> None:
    """D1: the last use stays the latest."""
    api_keys.verify(connection, key.token, _NOON)
    assert api_keys.verify(connection, key.token, _NOON - timedelta(days=1)) is not None
    assert _last_used(connection) == _NOON
