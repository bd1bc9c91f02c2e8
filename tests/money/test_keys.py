"""The names of the ledger's keys (RUN-7, D11)."""

from binascii import crc_hqx

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.money.keys import KeySpace

_TENANTS = st.text("abcXYZ019_-", min_size=1, max_size=64)
_CLIENT_KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=64)


def _all_of(keys: KeySpace, tenant_id: str, run_id: str, client_key: str) -> list[str]:
    return [
        keys.balance(tenant_id),
        keys.reservation(tenant_id, run_id),
        keys.reservation_amounts(tenant_id),
        keys.reservation_ages(tenant_id),
        keys.receipt(tenant_id, run_id),
        keys.credits_applied(tenant_id),
        keys.idempotency(tenant_id, client_key),
        keys.idempotency_lock(tenant_id, client_key),
        keys.lease(tenant_id, run_id),
        keys.rate_limit(tenant_id),
    ]


def _slot(key: str) -> int:
    """By the cluster specification: CRC16 (XMODEM) of the first non-empty hash tag, or of the whole key."""
    name = key
    start = key.find("{")
    if start != -1:
        end = key.find("}", start + 1)
        if end > start + 1:
            name = key[start + 1 : end]
    return crc_hqx(name.encode(), 0) % 16384


def test_the_slot_is_that_of_the_specification() -> None:
    """Its check value: CRC16("123456789") is 0x31C3."""
    assert _slot("123456789") == 0x31C3 % 16384
    assert _slot("{user1000}.following") == _slot("user1000")


def test_names_on_one_node_are_exactly_as_locked() -> None:
    """RUN-7 (001 §6.1)."""
    keys = KeySpace()
    assert keys.balance("t_acme") == "budget:t_acme:balance_usd_micros"
    assert keys.reservation("t_acme", "R") == "reserve:R"
    assert keys.idempotency("t_acme", "K") == "idem:t_acme:K"
    assert keys.idempotency_lock("t_acme", "K") == "idem_lock:t_acme:K"
    assert keys.lease("t_acme", "R") == "lease:R"


@pytest.mark.parametrize("cluster", [False, True])
def test_no_two_kinds_of_key_share_a_name(cluster: bool) -> None:
    """RUN-7: ten kinds have ten names, even if a run id equals a tenant id."""
    assert len(set(_all_of(KeySpace(cluster), "same", "same", "same-key"))) == 10


@given(_TENANTS, st.uuids().map(str), _CLIENT_KEYS)
def test_all_keys_of_a_tenant_share_a_slot_on_a_cluster(tenant_id: str, run_id: str, client_key: str) -> None:
    """D11: also if the client's key contains braces."""
    slots = {_slot(key) for key in _all_of(KeySpace(cluster=True), tenant_id, run_id, client_key)}
    assert slots == {_slot(tenant_id)}


@given(_TENANTS, _TENANTS, _CLIENT_KEYS, _CLIENT_KEYS)
def test_no_client_key_reaches_another_tenants_mapping(one: str, other: str, key: str, other_key: str) -> None:
    """RUN-11: a tenant id contains no separator, so no idempotency key can form another tenant's name."""
    for keys in (KeySpace(), KeySpace(cluster=True)):
        same = keys.idempotency(one, key) == keys.idempotency(other, other_key)
        assert same == ((one, key) == (other, other_key))
