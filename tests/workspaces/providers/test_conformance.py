"""Every provider keeps every promise of the ports (WS-9 … WS-12)."""

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from dpp.workspaces.errors import LeaseLost, OperationFailed
from dpp.workspaces.model import Archive, archive_key_of
from dpp.workspaces.ports import Archives, Containers, Volume, Volumes
from dpp.workspaces.providers.home_storage import archive_empty_home, archive_home, restore_home
from tests.workspaces.homes import no_heartbeat
from tests.workspaces.providers.workbench import PROVIDERS, Workbench


@pytest.fixture(params=PROVIDERS)
def bench(request: pytest.FixtureRequest, tmp_path: Path, aws: None) -> Iterator[Workbench]:
    """One provider after another."""
    with PROVIDERS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def containers(bench: Workbench) -> Containers:
    """Its containers."""
    return bench.provider.containers


@pytest.fixture
def volumes(bench: Workbench) -> Volumes:
    """Its volumes."""
    return bench.provider.volumes


@pytest.fixture
def archives(bench: Workbench) -> Archives:
    """Its archives."""
    return bench.provider.archives


def _installed(bench: Workbench, workspace_id: UUID, generation: str = "g1", marker: str = "a1") -> Volume:
    prepared = bench.provider.volumes.prepare(workspace_id, generation)
    bench.put(prepared, {"file": generation.encode()})
    return bench.provider.volumes.install(workspace_id, generation, marker, prepared)


def _key() -> str:
    return archive_key_of(uuid4(), uuid4())


def _lost() -> None:
    raise LeaseLost


# Volumes.


def test_there_is_no_volume_before_one_is_installed(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    bench.put(volumes.prepare(workspace_id, "g1"), {"file": b"half"})
    assert volumes.find(workspace_id) is None
    seen = volumes.observe([workspace_id])[workspace_id]
    assert (seen.ready, seen.reason) == (False, "VolumeNotFound")


def test_an_installed_volume_is_found_with_all_that_was_prepared(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    assert volumes.find(workspace_id) == volume
    assert (volume.workspace_id, volume.generation, volume.restore_marker) == (workspace_id, "g1", "a1")
    assert bench.get(volume.home) == {"file": b"g1"}
    seen = volumes.observe([workspace_id])[workspace_id]
    assert (seen.ready, seen.reason) == (True, "VolumeProvisioned")


def test_every_workspace_that_is_asked_for_is_observed(
    bench: Workbench, volumes: Volumes, containers: Containers
) -> None:
    with_volume, without = bench.workspace(), bench.workspace()
    volume = _installed(bench, with_volume)
    containers.start(with_volume, volume)
    for port in (volumes, containers):
        seen = port.observe([with_volume, without])
        assert {one: found.ready for one, found in seen.items()} == {with_volume: True, without: False}
        assert port.observe([]) == {}


def test_what_is_prepared_is_empty_whatever_an_interrupted_restore_left(
    bench: Workbench, volumes: Volumes
) -> None:
    workspace_id = bench.workspace()
    first = volumes.prepare(workspace_id, "g1")
    bench.put(first, {"half": b"half"})
    for generation in ("g1", "g2"):
        assert bench.get(volumes.prepare(workspace_id, generation)) == {}


def test_what_another_process_prepared_after_is_not_installed_half(
    bench: Workbench, volumes: Volumes
) -> None:
    workspace_id = bench.workspace()
    late = volumes.prepare(workspace_id, "g1")
    bench.put(late, {"file": b"whole"})
    prepared = volumes.prepare(workspace_id, "g1")
    with pytest.raises(OperationFailed, match="PreparedGone"):
        volumes.install(workspace_id, "g1", "a1", late)
    assert volumes.find(workspace_id) is None
    assert volumes.install(workspace_id, "g1", "a1", prepared).home == prepared


def test_installing_twice_answers_the_volume_as_it_is(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    bench.put(volume.home, {"work": b"of the developer"})
    assert volumes.install(workspace_id, "g1", "a1", volume.home) == volume
    assert _installed(bench, workspace_id) == volume
    assert bench.get(volume.home)["work"] == b"of the developer"


@pytest.mark.parametrize(("generation", "marker"), [("g2", "a1"), ("g1", "a2"), ("g2", "a2")])
def test_a_home_is_never_covered_by_another(
    bench: Workbench, volumes: Volumes, generation: str, marker: str
) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    with pytest.raises(OperationFailed, match="VolumeExists"):
        _installed(bench, workspace_id, generation, marker)
    assert volumes.find(workspace_id) == volume
    assert bench.get(volume.home) == {"file": b"g1"}


def test_a_volume_without_marker_exists_is_not_found_and_not_covered(
    bench: Workbench, volumes: Volumes
) -> None:
    workspace_id = bench.workspace()
    bench.spoil(workspace_id)
    assert volumes.observe([workspace_id])[workspace_id].ready
    with pytest.raises(OperationFailed, match="VolumeUnproven") as failed:
        volumes.find(workspace_id)
    assert failed.value.is_terminal
    with pytest.raises(OperationFailed, match="VolumeUnproven"):
        _installed(bench, workspace_id)
    volumes.delete(workspace_id, "g1")
    assert volumes.observe([workspace_id])[workspace_id].ready
    volumes.delete(workspace_id, None)
    assert volumes.find(workspace_id) is None


@pytest.mark.parametrize("generation", ["g1", None])
def test_a_deleted_volume_is_gone_and_deleting_it_again_does_nothing(
    bench: Workbench, volumes: Volumes, generation: str | None
) -> None:
    workspace_id = bench.workspace()
    volumes.delete(workspace_id, generation)
    _installed(bench, workspace_id)
    for _ in range(2):
        volumes.delete(workspace_id, generation)
        assert volumes.find(workspace_id) is None
        assert not volumes.observe([workspace_id])[workspace_id].ready


def test_who_comes_late_with_an_older_generation_deletes_nothing(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    _installed(bench, workspace_id)
    volumes.delete(workspace_id, "g1")
    prepared = volumes.prepare(workspace_id, "g2")
    bench.put(prepared, {"file": b"g2"})
    volumes.delete(workspace_id, "g1")
    volume = volumes.install(workspace_id, "g2", "a2", prepared)
    volumes.delete(workspace_id, "g1")
    assert volumes.find(workspace_id) == volume
    assert bench.get(volume.home) == {"file": b"g2"}


@pytest.mark.parametrize("generation", ["g1", None])
def test_what_was_prepared_for_a_deleted_generation_is_not_installed(
    bench: Workbench, volumes: Volumes, generation: str | None
) -> None:
    workspace_id = bench.workspace()
    prepared = volumes.prepare(workspace_id, "g1")
    volumes.delete(workspace_id, generation)
    with pytest.raises(OperationFailed, match="PreparedGone"):
        volumes.install(workspace_id, "g1", "a1", prepared)
    assert volumes.find(workspace_id) is None


def test_a_volume_in_use_is_not_deleted(bench: Workbench, volumes: Volumes, containers: Containers) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    containers.start(workspace_id, volume)
    for generation in ("g1", None):
        with pytest.raises(OperationFailed, match="VolumeInUse") as failed:
            volumes.delete(workspace_id, generation)
        assert not failed.value.is_terminal
    assert volumes.find(workspace_id) == volume
    containers.stop(workspace_id)
    volumes.delete(workspace_id, "g1")
    assert volumes.find(workspace_id) is None


def test_one_workspaces_volume_is_nothing_to_another(bench: Workbench, volumes: Volumes) -> None:
    one, other = bench.workspace(), bench.workspace()
    volume = _installed(bench, one)
    _installed(bench, other)
    volumes.delete(other, None)
    volumes.prepare(other, "g1")
    assert volumes.find(one) == volume
    assert bench.get(volume.home) == {"file": b"g1"}


# Containers.


def test_a_started_container_is_observed_until_it_is_stopped(
    bench: Workbench, containers: Containers
) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    assert not containers.observe([workspace_id])[workspace_id].ready
    containers.start(workspace_id, volume)
    assert containers.observe([workspace_id])[workspace_id].ready
    containers.start(workspace_id, volume)
    assert containers.observe([workspace_id])[workspace_id].ready
    for _ in range(2):
        containers.stop(workspace_id)
        assert not containers.observe([workspace_id])[workspace_id].ready


def test_stopping_what_never_ran_does_nothing(bench: Workbench, containers: Containers) -> None:
    containers.stop(bench.workspace())


def test_a_container_starts_on_no_volume_but_the_one_that_stands(
    bench: Workbench, volumes: Volumes, containers: Containers
) -> None:
    workspace_id = bench.workspace()
    old = _installed(bench, workspace_id)
    volumes.delete(workspace_id, "g1")
    with pytest.raises(OperationFailed, match="VolumeGone"):
        containers.start(workspace_id, old)
    _installed(bench, workspace_id, "g2")
    with pytest.raises(OperationFailed, match="VolumeGone"):
        containers.start(workspace_id, old)
    assert not containers.observe([workspace_id])[workspace_id].ready


def test_the_infrastructure_has_a_name(containers: Containers) -> None:
    assert containers.infra.isidentifier()


# Archives.


def _write(archives: Archives, key: str, *chunks: bytes, replaces: str | None = None) -> Archive:
    return archives.write(key, iter(chunks), no_heartbeat, replaces)


@pytest.mark.parametrize("chunks", [(), (b"",), (b"one",), (b"one", b"", b"two"), (b"x" * 100_000,) * 3])
def test_what_is_written_is_read_back(archives: Archives, chunks: tuple[bytes, ...]) -> None:
    key = _key()
    archive = _write(archives, key, *chunks)
    assert b"".join(archives.read(key, no_heartbeat)) == b"".join(chunks)
    found = archives.head(key)
    assert found is not None
    assert (archive.key, archive.size_bytes, archive.etag) == (found.key, found.size_bytes, found.etag)
    assert found.expires_at is None
    assert found.modified_at.tzinfo is not None


def test_nothing_is_stored_of_what_breaks_off(archives: Archives) -> None:
    key = _key()

    def broken() -> Iterator[bytes]:
        yield b"some"
        raise OperationFailed("HomeChanged", "meanwhile")

    with pytest.raises(OperationFailed, match="HomeChanged"):
        archives.write(key, broken(), no_heartbeat)
    with pytest.raises(LeaseLost):
        archives.write(key, iter([b"some"]), _lost)
    assert archives.head(key) is None


def test_an_object_is_covered_only_by_who_names_it(archives: Archives) -> None:
    key = _key()
    first = _write(archives, key, b"first")
    for replaces in (None, "0" * 32):
        with pytest.raises(OperationFailed, match="ArchiveExists") as failed:
            _write(archives, key, b"second", replaces=replaces)
        assert not failed.value.is_terminal
    assert b"".join(archives.read(key, no_heartbeat)) == b"first"
    _write(archives, key, b"third", replaces=first.etag)
    assert b"".join(archives.read(key, no_heartbeat)) == b"third"


def test_what_is_not_there_is_not_found(archives: Archives) -> None:
    key = _key()
    assert archives.head(key) is None
    assert archives.read_proof(key) is None
    with pytest.raises(OperationFailed, match="ArchiveNotFound") as failed:
        list(archives.read(key, no_heartbeat))
    assert failed.value.is_terminal


def test_who_lost_the_lease_reads_no_further(archives: Archives) -> None:
    key = _key()
    _write(archives, key, b"content")
    with pytest.raises(LeaseLost):
        list(archives.read(key, _lost))


def test_a_proof_is_read_as_it_was_noted(archives: Archives) -> None:
    archive = _write(archives, _key(), b"content")
    assert archives.read_proof(archive.key) is None
    for _ in range(2):
        archives.write_proof(archive)
        assert archives.read_proof(archive.key) == archive
    newer = Archive(archive.key, 1, "0" * 64, "1")
    archives.write_proof(newer)
    assert archives.read_proof(archive.key) == newer


def test_pages_go_through_all_objects_in_order_and_proofs_among_them(archives: Archives) -> None:
    for _ in range(3):
        archives.write_proof(_write(archives, _key(), b"content"))
    after, met = None, []
    while page := archives.page(after, 4):
        assert len(page) <= 4
        met += [found.key for found in page]
        after = met[-1]
    assert met == sorted(met)
    assert len(met) == 6
    assert sum(key.endswith("/home.tar.zst") for key in met) == 3


def test_deleted_objects_are_gone_and_nobody_elses(archives: Archives) -> None:
    kept, deleted = (_write(archives, _key(), b"content").key for _ in range(2))
    for _ in range(2):
        assert archives.delete([deleted]) == []
    assert archives.delete([]) == []
    assert archives.head(deleted) is None
    assert archives.head(kept) is not None


def test_no_more_than_a_thousand_are_deleted_at_once(archives: Archives) -> None:
    with pytest.raises(ValueError, match="1000"):
        archives.delete(["key"] * 1001)


# All of it together: the storage of homes, over each provider.


def test_a_home_goes_through_its_whole_life(bench: Workbench, volumes: Volumes, archives: Archives) -> None:
    workspace_id = bench.workspace()
    archive = archive_empty_home(archives, workspace_id, uuid4(), no_heartbeat, homes=bench.homes)
    files: dict[str, bytes] = {}
    for round_number in range(3):
        op_id = uuid4()
        volume = restore_home(
            volumes, archives, workspace_id, op_id, archive, no_heartbeat, homes=bench.homes
        )
        assert bench.get(volume.home) == files
        assert volume == volumes.find(workspace_id)
        bench.provider.containers.start(workspace_id, volume)
        files[f"work{round_number}"] = b"of the developer" * 100
        bench.put(volume.home, files)
        bench.provider.containers.stop(workspace_id)
        archive = archive_home(volumes, archives, workspace_id, op_id, no_heartbeat, homes=bench.homes)
        assert archives.read_proof(archive.key) == archive
        volumes.delete(workspace_id, volume.generation)


def test_an_altered_archive_is_never_restored(bench: Workbench, volumes: Volumes, archives: Archives) -> None:
    workspace_id = bench.workspace()
    archive = archive_empty_home(archives, workspace_id, uuid4(), no_heartbeat, homes=bench.homes)
    bench.alter(archive.key)
    with pytest.raises(OperationFailed, match="ArchiveCorrupted") as failed:
        restore_home(volumes, archives, workspace_id, uuid4(), archive, no_heartbeat, homes=bench.homes)
    assert failed.value.is_terminal
    assert volumes.find(workspace_id) is None
