"""Conformance suite of the ports: every provider must pass it (WS-9 … WS-12)."""

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
    """Each provider in turn."""
    with PROVIDERS[request.param](tmp_path) as opened:
        yield opened


@pytest.fixture
def containers(bench: Workbench) -> Containers:
    return bench.provider.containers


@pytest.fixture
def volumes(bench: Workbench) -> Volumes:
    return bench.provider.volumes


@pytest.fixture
def archives(bench: Workbench) -> Archives:
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


def test_no_volume_exists_before_install(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    bench.put(volumes.prepare(workspace_id, "g1"), {"file": b"half"})
    assert volumes.find(workspace_id) is None
    found = volumes.observe([workspace_id])[workspace_id]
    assert (found.ready, found.reason) == (False, "VolumeNotFound")


def test_installed_volume_is_found_with_the_prepared_files(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    assert volumes.find(workspace_id) == volume
    assert (volume.workspace_id, volume.generation, volume.restore_marker) == (workspace_id, "g1", "a1")
    assert bench.get(volume.home) == {"file": b"g1"}
    found = volumes.observe([workspace_id])[workspace_id]
    assert (found.ready, found.reason) == (True, "VolumeProvisioned")


def test_observe_returns_an_entry_for_every_id(bench: Workbench, volumes: Volumes, containers: Containers) -> None:
    with_volume, without = bench.workspace(), bench.workspace()
    volume = _installed(bench, with_volume)
    containers.start(with_volume, volume)
    for port in (volumes, containers):
        observed = port.observe([with_volume, without])
        assert {one: found.ready for one, found in observed.items()} == {with_volume: True, without: False}
        assert port.observe([]) == {}


def test_prepared_folder_is_empty_after_an_interrupted_restore(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    first = volumes.prepare(workspace_id, "g1")
    bench.put(first, {"half": b"half"})
    for generation in ("g1", "g2"):
        assert bench.get(volumes.prepare(workspace_id, generation)) == {}


def test_folder_is_not_installed_after_a_later_prepare(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    late = volumes.prepare(workspace_id, "g1")
    bench.put(late, {"file": b"whole"})
    prepared = volumes.prepare(workspace_id, "g1")
    with pytest.raises(OperationFailed, match="PreparedGone"):
        volumes.install(workspace_id, "g1", "a1", late)
    assert volumes.find(workspace_id) is None
    assert volumes.install(workspace_id, "g1", "a1", prepared).home == prepared


def test_repeated_install_returns_the_existing_volume(bench: Workbench, volumes: Volumes) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    bench.put(volume.home, {"work": b"of the developer"})
    assert volumes.install(workspace_id, "g1", "a1", volume.home) == volume
    assert _installed(bench, workspace_id) == volume
    assert bench.get(volume.home)["work"] == b"of the developer"


@pytest.mark.parametrize(("generation", "marker"), [("g2", "a1"), ("g1", "a2"), ("g2", "a2")])
def test_home_is_never_replaced_by_another(bench: Workbench, volumes: Volumes, generation: str, marker: str) -> None:
    workspace_id = bench.workspace()
    volume = _installed(bench, workspace_id)
    with pytest.raises(OperationFailed, match="VolumeExists"):
        _installed(bench, workspace_id, generation, marker)
    assert volumes.find(workspace_id) == volume
    assert bench.get(volume.home) == {"file": b"g1"}


def test_volume_without_marker_is_observed_but_neither_found_nor_replaced(bench: Workbench, volumes: Volumes) -> None:
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
def test_delete_removes_the_volume_and_is_repeatable(
    bench: Workbench, volumes: Volumes, generation: str | None
) -> None:
    workspace_id = bench.workspace()
    volumes.delete(workspace_id, generation)
    _installed(bench, workspace_id)
    for _ in range(2):
        volumes.delete(workspace_id, generation)
        assert volumes.find(workspace_id) is None
        assert not volumes.observe([workspace_id])[workspace_id].ready


def test_late_delete_of_an_older_generation_deletes_nothing(bench: Workbench, volumes: Volumes) -> None:
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
def test_prepared_folder_of_a_deleted_generation_is_not_installed(
    bench: Workbench, volumes: Volumes, generation: str | None
) -> None:
    workspace_id = bench.workspace()
    prepared = volumes.prepare(workspace_id, "g1")
    volumes.delete(workspace_id, generation)
    with pytest.raises(OperationFailed, match="PreparedGone"):
        volumes.install(workspace_id, "g1", "a1", prepared)
    assert volumes.find(workspace_id) is None


def test_volume_in_use_is_not_deleted(bench: Workbench, volumes: Volumes, containers: Containers) -> None:
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


def test_volumes_of_two_workspaces_are_independent(bench: Workbench, volumes: Volumes) -> None:
    one, other = bench.workspace(), bench.workspace()
    volume = _installed(bench, one)
    _installed(bench, other)
    volumes.delete(other, None)
    volumes.prepare(other, "g1")
    assert volumes.find(one) == volume
    assert bench.get(volume.home) == {"file": b"g1"}


# Containers.


def test_started_container_is_observed_until_it_is_stopped(bench: Workbench, containers: Containers) -> None:
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


def test_stop_without_a_container_does_nothing(bench: Workbench, containers: Containers) -> None:
    containers.stop(bench.workspace())


def test_container_starts_only_on_the_existing_volume(
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


def test_infrastructure_has_a_name(containers: Containers) -> None:
    assert containers.infra.isidentifier()


# Archives.


def _write(archives: Archives, key: str, *chunks: bytes, replaces: str | None = None) -> Archive:
    return archives.write(key, iter(chunks), no_heartbeat, replaces)


@pytest.mark.parametrize("chunks", [(), (b"",), (b"one",), (b"one", b"", b"two"), (b"x" * 100_000,) * 3])
def test_written_archive_is_read_back(archives: Archives, chunks: tuple[bytes, ...]) -> None:
    key = _key()
    archive = _write(archives, key, *chunks)
    assert b"".join(archives.read(key, no_heartbeat)) == b"".join(chunks)
    found = archives.head(key)
    assert found is not None
    assert (archive.key, archive.size_bytes, archive.etag) == (found.key, found.size_bytes, found.etag)
    assert found.expires_at is None
    assert found.modified_at.tzinfo is not None


def test_interrupted_write_stores_nothing(archives: Archives) -> None:
    key = _key()

    def broken() -> Iterator[bytes]:
        yield b"some"
        raise OperationFailed("HomeChanged", "meanwhile")

    with pytest.raises(OperationFailed, match="HomeChanged"):
        archives.write(key, broken(), no_heartbeat)
    with pytest.raises(LeaseLost):
        archives.write(key, iter([b"some"]), _lost)
    assert archives.head(key) is None


def test_object_is_replaced_only_by_a_write_that_names_its_etag(archives: Archives) -> None:
    key = _key()
    first = _write(archives, key, b"first")
    for replaces in (None, "0" * 32):
        with pytest.raises(OperationFailed, match="ArchiveExists") as failed:
            _write(archives, key, b"second", replaces=replaces)
        assert not failed.value.is_terminal
    assert b"".join(archives.read(key, no_heartbeat)) == b"first"
    _write(archives, key, b"third", replaces=first.etag)
    assert b"".join(archives.read(key, no_heartbeat)) == b"third"


def test_missing_archive_is_not_found(archives: Archives) -> None:
    key = _key()
    assert archives.head(key) is None
    assert archives.read_proof(key) is None
    with pytest.raises(OperationFailed, match="ArchiveNotFound") as failed:
        list(archives.read(key, no_heartbeat))
    assert failed.value.is_terminal


def test_read_stops_when_the_lease_is_lost(archives: Archives) -> None:
    key = _key()
    _write(archives, key, b"content")
    with pytest.raises(LeaseLost):
        list(archives.read(key, _lost))


def test_proof_is_read_as_written(archives: Archives) -> None:
    archive = _write(archives, _key(), b"content")
    assert archives.read_proof(archive.key) is None
    for _ in range(2):
        archives.write_proof(archive)
        assert archives.read_proof(archive.key) == archive
    newer = Archive(archive.key, 1, "0" * 64, "1")
    archives.write_proof(newer)
    assert archives.read_proof(archive.key) == newer


def test_pages_list_all_objects_and_proofs_in_order(archives: Archives) -> None:
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


def test_delete_removes_only_the_given_objects(archives: Archives) -> None:
    kept, deleted = (_write(archives, _key(), b"content").key for _ in range(2))
    for _ in range(2):
        assert archives.delete([deleted]) == []
    assert archives.delete([]) == []
    assert archives.head(deleted) is None
    assert archives.head(kept) is not None


def test_delete_refuses_more_than_a_thousand_keys(archives: Archives) -> None:
    with pytest.raises(ValueError, match="1000"):
        archives.delete(["key"] * 1001)


# Archiving and restoring of homes, over each provider.


def test_home_survives_repeated_archiving_and_restoring(bench: Workbench, volumes: Volumes, archives: Archives) -> None:
    workspace_id = bench.workspace()
    archive = archive_empty_home(archives, workspace_id, uuid4(), no_heartbeat, homes=bench.homes)
    files: dict[str, bytes] = {}
    for round_number in range(3):
        op_id = uuid4()
        volume = restore_home(volumes, archives, workspace_id, op_id, archive, no_heartbeat, homes=bench.homes)
        assert bench.get(volume.home) == files
        assert volume == volumes.find(workspace_id)
        bench.provider.containers.start(workspace_id, volume)
        files[f"work{round_number}"] = b"of the developer" * 100
        bench.put(volume.home, files)
        bench.provider.containers.stop(workspace_id)
        archive = archive_home(volumes, archives, workspace_id, op_id, no_heartbeat, homes=bench.homes)
        assert archives.read_proof(archive.key) == archive
        volumes.delete(workspace_id, volume.generation)


def test_altered_archive_is_never_restored(bench: Workbench, volumes: Volumes, archives: Archives) -> None:
    workspace_id = bench.workspace()
    archive = archive_empty_home(archives, workspace_id, uuid4(), no_heartbeat, homes=bench.homes)
    bench.alter(archive.key)
    with pytest.raises(OperationFailed, match="ArchiveCorrupted") as failed:
        restore_home(volumes, archives, workspace_id, uuid4(), archive, no_heartbeat, homes=bench.homes)
    assert failed.value.is_terminal
    assert volumes.find(workspace_id) is None
