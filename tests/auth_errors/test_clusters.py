"""Errors of one failure are found together, under every version of the stack hash (AUTH-10)."""

import threading
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
from tests.auth_errors.conftest import AT_NOON, OTHER_TRACE, TRACE, Desk


def _cluster(desk: Desk, auth_error_id: UUID) -> UUID:
    (cluster,) = desk.whole(auth_error_id).clusters
    return cluster.cluster_id


def test_the_same_failure_is_one_cluster_and_another_is_another(desk: Desk) -> None:
    first = desk.post()
    moved = desk.post(stacktrace=TRACE.replace(":41", ":57"))
    other = desk.post(stacktrace=OTHER_TRACE, exception_class="com.example.auth.BadSignature")
    desk.settle()
    assert _cluster(desk, first) == _cluster(desk, moved)
    assert _cluster(desk, other) != _cluster(desk, first)
    (cluster,) = desk.whole(first).clusters
    assert (cluster.error_count, cluster.hash_version) == (2, "v1")
    assert cluster.exception_class == "com.example.auth.TokenExpired"


def test_a_cluster_tells_when_it_was_seen_first_and_last(desk: Desk) -> None:
    first = desk.post()
    begun = desk.error(first).created_at
    desk.settle()
    desk.pass_time(3_600)
    last = desk.post()
    desk.settle()
    (cluster,) = desk.whole(first).clusters
    assert (cluster.first_seen_at, cluster.last_seen_at) == (begun, desk.error(last).created_at)
    with desk.database.connection() as connection:
        assert store.growing(connection, desk.now) == (1, 0)
        assert store.growing(connection, desk.now + timedelta(minutes=11)) == (0, 0)


def test_a_repetition_is_counted_once(desk: Desk) -> None:
    auth_error_id = desk.post()
    desk.settle()
    (cluster,) = desk.whole(auth_error_id).clusters
    with desk.database.connection() as connection:
        again = store.join_cluster(connection, desk.error(auth_error_id), uuid4(), "v1", cluster.stack_hash)
    assert again == cluster


def test_analyses_at_once_count_each_error_once(desk: Desk) -> None:
    ids = [desk.post() for _ in range(12)]
    desk.publish()
    desk.deliver()
    messages = [desk.message(one, EventType.ANALYSIS_REQUESTED) for one in ids]
    start = threading.Barrier(3)

    def work() -> None:
        database = Database(desk.url)
        start.wait()
        for message in messages:
            consume(message, desk.consuming(database), desk.now)
        database.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    desk.come_to_rest(rounds=2)
    assert desk.rows("SELECT error_count FROM auth_error_cluster") == [(12,)]
    assert desk.rows("SELECT count(*) FROM auth_error_cluster_item") == [(12,)]


def test_a_later_version_finds_clusters_anew_and_loses_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [desk.post() for _ in range(3)]
    desk.settle()
    old = _cluster(desk, ids[0])
    monkeypatch.setattr(rehash, "VERSION", "v2")
    monkeypatch.setattr(rehash, "stack_hash", lambda *_: StackHash("v2", "b" * 64))
    assert rehash.rehash(desk.database, limit=2) == (2, desk.error(ids[1]).sequence)
    assert rehash.rehash(desk.database) == (1, None)
    assert rehash.rehash(desk.database) == (0, None)
    for one in ids:
        new, kept = desk.whole(one).clusters
        assert (new.hash_version, new.error_count) == ("v2", 3)
        assert (kept.cluster_id, kept.hash_version, kept.error_count) == (old, "v1", 3)
    # What has no analysis yet waits for it.
    desk.post()
    assert rehash.rehash(desk.database) == (0, None)


class TestPages:
    """By cursor, with filters."""

    def test_pages_meet_each_error_once_the_newest_first(self, desk: Desk) -> None:
        ids = [desk.post(occurred_at=AT_NOON + timedelta(hours=n // 3)) for n in range(8)]
        found, place = list[UUID](), None
        with desk.database.connection() as connection:
            while True:
                page = read.page(connection, Filter(), place, 3)
                found += [one.auth_error_id for one in page.errors]
                if (place := page.place) is None:
                    break
        assert found == list(reversed(ids))

    def test_filters_narrow(self, desk: Desk) -> None:
        one = desk.post()
        other = desk.post(
            stacktrace=OTHER_TRACE,
            exception_class="com.example.Other",
            occurred_at=AT_NOON - timedelta(days=1),
        )
        desk.settle()
        third = desk.post()
        with desk.database.connection() as connection:

            def ids(which: Filter) -> set[UUID]:
                return {error.auth_error_id for error in read.page(connection, which, None, 10).errors}

            assert ids(Filter()) == {one, other, third}
            assert ids(Filter(status=desk.status(third))) == {third}
            assert ids(Filter(exception_class="com.example.Other")) == {other}
            assert ids(Filter(since=AT_NOON)) == {one, third}
            assert ids(Filter(cluster_id=_cluster(desk, other))) == {other}
            assert ids(Filter(cluster_id=_cluster(desk, other), since=AT_NOON)) == set()
            assert ids(Filter(cluster_id=UUID(int=0))) == set()

    def test_what_is_not_there_is_not_found(self, desk: Desk) -> None:
        with desk.database.connection() as connection:
            for one in (None, UUID(int=0)):
                with pytest.raises(AuthErrorNotFound):
                    read.read(connection, one)
                with pytest.raises(ClusterNotFound):
                    read.cluster(connection, one)
