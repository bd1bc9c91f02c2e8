"""Errors of the same failure share a cluster, for every version of the stack hash (AUTH-10)."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from dpp.auth_errors import rehash, store
from dpp.auth_errors.api import read
from dpp.auth_errors.errors import AuthErrorNotFound, ClusterNotFound
from dpp.auth_errors.outbox.consume import consume
from dpp.auth_errors.outbox.events import EventType
from dpp.auth_errors.store import Filter
from dpp.auth_errors.traces.stack_hash import StackHash
from dpp.platform.db.postgres import Database
from tests.auth_errors.environment import AT_NOON, OTHER_TRACE, TRACE, Environment
from tests.support.threads import at_once


def _cluster(env: Environment, auth_error_id: UUID) -> UUID:
    (cluster,) = env.details(auth_error_id).clusters
    return cluster.cluster_id


def test_same_failure_shares_a_cluster(env: Environment) -> None:
    first = env.post()
    moved = env.post(stacktrace=TRACE.replace(":41", ":57"))
    other = env.post(stacktrace=OTHER_TRACE, exception_class="com.example.auth.BadSignature")
    env.run_until_idle()
    assert _cluster(env, first) == _cluster(env, moved)
    assert _cluster(env, other) != _cluster(env, first)
    (cluster,) = env.details(first).clusters
    assert (cluster.error_count, cluster.hash_version) == (2, "v1")
    assert cluster.exception_class == "com.example.auth.TokenExpired"


def test_cluster_has_first_and_last_times(env: Environment) -> None:
    first = env.post()
    begun = env.error(first).created_at
    env.run_until_idle()
    env.pass_time(3_600)
    last = env.post()
    env.run_until_idle()
    (cluster,) = env.details(first).clusters
    assert (cluster.first_seen_at, cluster.last_seen_at) == (begun, env.error(last).created_at)
    assert env.using(store.growing, env.now) == (1, 0)
    assert env.using(store.growing, env.now + timedelta(minutes=11)) == (0, 0)


def test_repetition_is_counted_once(env: Environment) -> None:
    auth_error_id = env.post()
    env.run_until_idle()
    (cluster,) = env.details(auth_error_id).clusters
    again = env.using(store.join_cluster, env.error(auth_error_id), uuid4(), "v1", cluster.stack_hash)
    assert again == cluster


def test_concurrent_analyses_count_each_error_once(env: Environment) -> None:
    ids = [env.post() for _ in range(12)]
    env.publish()
    env.deliver()
    messages = [env.message(one, EventType.ANALYSIS_REQUESTED) for one in ids]

    def work(database: Database) -> None:
        for message in messages:
            consume(message, env.consume_effects(database), env.now)

    at_once(env.url, *[work] * 3)
    env.recover(rounds=2)
    assert env.rows("SELECT error_count FROM auth_error_cluster") == [(12,)]
    assert env.rows("SELECT count(*) FROM auth_error_cluster_item") == [(12,)]


def test_new_hash_version_adds_clusters_and_keeps_old_ones(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [env.post() for _ in range(3)]
    env.run_until_idle()
    old = _cluster(env, ids[0])
    monkeypatch.setattr(rehash, "VERSION", "v2")
    monkeypatch.setattr(rehash, "stack_hash", lambda *_: StackHash("v2", "b" * 64))
    assert rehash.rehash(env.database, limit=2) == (2, env.error(ids[1]).sequence)
    assert rehash.rehash(env.database) == (1, None)
    assert rehash.rehash(env.database) == (0, None)
    for one in ids:
        new, kept = env.details(one).clusters
        assert (new.hash_version, new.error_count) == ("v2", 3)
        assert (kept.cluster_id, kept.hash_version, kept.error_count) == (old, "v1", 3)
    # An error without an analysis is not rehashed.
    env.post()
    assert rehash.rehash(env.database) == (0, None)


class TestPages:
    """Pages by cursor, with filters."""

    def test_pages_have_each_error_once_newest_first(self, env: Environment) -> None:
        ids = [env.post(occurred_at=AT_NOON + timedelta(hours=n // 3)) for n in range(8)]
        found, place = list[UUID](), None
        with env.database.connection() as connection:
            while True:
                page = read.page(connection, Filter(), place, 3)
                found += [one.auth_error_id for one in page.errors]
                if (place := page.next_key) is None:
                    break
        assert found == list(reversed(ids))

    def test_filters(self, env: Environment) -> None:
        one = env.post()
        other = env.post(
            stacktrace=OTHER_TRACE, exception_class="com.example.Other", occurred_at=AT_NOON - timedelta(days=1)
        )
        env.run_until_idle()
        third = env.post()
        with env.database.connection() as connection:

            def ids(which: Filter) -> set[UUID]:
                return {error.auth_error_id for error in read.page(connection, which, None, 10).errors}

            assert ids(Filter()) == {one, other, third}
            assert ids(Filter(status=env.status(third))) == {third}
            assert ids(Filter(exception_class="com.example.Other")) == {other}
            assert ids(Filter(since=AT_NOON)) == {one, third}
            assert ids(Filter(cluster_id=_cluster(env, other))) == {other}
            assert ids(Filter(cluster_id=_cluster(env, other), since=AT_NOON)) == set()
            assert ids(Filter(cluster_id=UUID(int=0))) == set()

    def test_unknown_ids_are_not_found(self, env: Environment) -> None:
        with env.database.connection() as connection:
            for one in (None, UUID(int=0)):
                with pytest.raises(AuthErrorNotFound):
                    read.read(connection, one)
                with pytest.raises(ClusterNotFound):
                    read.cluster(connection, one)
