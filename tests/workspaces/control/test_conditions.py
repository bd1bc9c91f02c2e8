"""Conditions, health and phase: the document's tables, one row per case (003 §1, §5; WS-2, WS-3, WS-4)."""

from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpp.workspaces.control.conditions import (
    ObservedState,
    calculate_phase,
    conditions_after,
    judge_health,
    observe_archive,
)
from dpp.workspaces.model import ARCHIVE_READY, HEALTHY, LEVELS, VOLUME_READY, Condition, ErrorInfo, Phase
from dpp.workspaces.ports import ArchiveObject
from tests.workspaces.rows import INFRA, NOON, OTHER_KEY, OWN_KEY, conditions, failed, proof, seen, terminal

# 003 §1, "policy.healthy=false 조건": container, volume, archive, archive_key, error → reason of the first violation.
HEALTH = [
    (True, False, True, OWN_KEY, None, "ContainerWithoutVolume"),
    (True, False, False, OWN_KEY, terminal(), "ContainerWithoutVolume"),
    (True, False, False, None, terminal(), "ContainerWithoutVolume"),
    (False, True, False, OWN_KEY, None, "ArchiveAccessError"),
    (True, True, False, OWN_KEY, terminal(), "ArchiveAccessError"),
    (False, False, False, OWN_KEY, None, "ArchiveAccessError"),
    (True, True, True, OWN_KEY, terminal("DataLost"), "DataLost"),
    (False, False, False, None, terminal("VolumeInUse"), "VolumeInUse"),
    (True, True, True, OWN_KEY, None, None),
    (True, True, False, None, None, None),
    (False, False, False, None, None, None),
]

# 003 §5, "Phase 정의": deleted, healthy, container, volume, archive → phase.
PHASES = [
    (True, True, True, True, True, Phase.DELETED),
    (True, False, True, True, True, Phase.DELETED),
    (True, True, False, False, False, Phase.DELETED),
    (False, False, True, True, True, Phase.ERROR),
    (False, False, False, False, False, Phase.ERROR),
    (False, True, True, True, False, Phase.RUNNING),
    (False, True, True, True, True, Phase.RUNNING),
    (False, True, False, True, False, Phase.STANDBY),
    (False, True, False, True, True, Phase.STANDBY),
    (False, True, False, False, True, Phase.ARCHIVED),
    (False, True, False, False, False, Phase.PENDING),
]

SOON = NOON + timedelta(seconds=1)
_FOUND = ArchiveObject(OWN_KEY, 1_000, "etag", NOON)

# 003 §1, "storage.archive_ready reason 값": archive_key, proof, what HEAD found → status, reason.
ARCHIVES = [
    (None, None, None, False, "NoArchive"),
    (None, proof(OWN_KEY), _FOUND, False, "NoArchive"),
    (OWN_KEY, proof(OWN_KEY), None, False, "ArchiveNotFound"),
    (OWN_KEY, proof(OWN_KEY), ArchiveObject(OWN_KEY, 1_000, "etag", NOON, NOON), False, "ArchiveExpired"),
    (OWN_KEY, proof(OWN_KEY), ArchiveObject(OWN_KEY, 999, "etag", NOON), False, "ArchiveCorrupted"),
    (OWN_KEY, proof(OWN_KEY), ArchiveObject(OWN_KEY, 1_000, "other", NOON), False, "ArchiveCorrupted"),
    (OWN_KEY, proof(OWN_KEY), _FOUND, True, "ArchiveUploaded"),
    (OWN_KEY, proof(OTHER_KEY), ArchiveObject(OWN_KEY, 7, "other", NOON), True, "ArchiveUploaded"),
    (OWN_KEY, proof(OWN_KEY), ArchiveObject(OWN_KEY, 1_000, "etag", NOON, SOON), True, "ArchiveUploaded"),
]


@pytest.mark.parametrize("case", HEALTH)
def test_first_violation_is_the_reason(case: tuple[bool, bool, bool, str | None, ErrorInfo | None, str | None]) -> None:
    """WS-4."""
    container, volume, archive, key, error, reason = case
    found = judge_health(ObservedState({INFRA: seen(container)}, seen(volume), seen(archive), key, error))
    assert (found.ready, found.reason) == (reason is None, reason or "Healthy")


def test_retried_error_does_not_affect_health() -> None:
    """WS-4, WS-14: only a terminal error leads to ERROR."""
    assert conditions(False, True, False, error=failed("STARTING", 2))[HEALTHY].status  # type: ignore[arg-type]


@pytest.mark.parametrize("case", PHASES)
def test_conditions_determine_one_phase(case: tuple[bool, bool, bool, bool, bool, Phase]) -> None:
    """WS-3, in the document's priority."""
    deleted, healthy, container, volume, archive, phase = case
    given = {
        name: Condition(status, "Any", "", NOON)
        for name, status in {INFRA: container, VOLUME_READY: volume, ARCHIVE_READY: archive, HEALTHY: healthy}.items()
    }
    assert calculate_phase(given, NOON if deleted else None) is phase


def test_every_combination_has_a_phase_with_a_level_or_error() -> None:
    """WS-3: a violated invariant is ERROR."""
    for container, volume, archive, key in product((True, False), (True, False), (True, False), (None, OWN_KEY)):
        phase = calculate_phase(conditions(container, volume, archive, archive_key=key), None)
        broken = (container and not volume) or (key is not None and not archive)
        assert (phase is Phase.ERROR) == broken
        assert broken or phase in LEVELS


def test_workspace_that_was_never_observed_is_pending() -> None:
    """WS-3."""
    assert calculate_phase({}, None) is Phase.PENDING


def test_containers_of_any_infrastructure_count() -> None:
    """WS-2: `infra.*.container_ready`; a new infrastructure needs no new column."""
    made = dict(conditions(False, True, False))
    made["infra.k8s.container_ready"] = Condition(True, "Running", "", NOON)
    assert calculate_phase(made, None) is Phase.RUNNING


@pytest.mark.parametrize(("key", "known", "found", "ready", "reason"), ARCHIVES)
def test_archive_has_one_of_five_reasons(
    key: str | None, known: object, found: ArchiveObject | None, ready: bool, reason: str
) -> None:
    """WS-2."""
    one = observe_archive(key, known, found, NOON)  # type: ignore[arg-type]
    assert (one.ready, one.reason) == (ready, reason)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=12))
def test_transition_time_changes_only_with_the_status(observations: list[tuple[bool, bool, bool]]) -> None:
    """WS-2: a change of reason or message keeps the time."""
    known: dict[str, Condition] = {}
    for number, (container, volume, archive) in enumerate(observations):
        at = NOON + timedelta(seconds=number)
        observed = ObservedState({INFRA: seen(container, f"Reason{number}")}, seen(volume), seen(archive), None, None)
        after = conditions_after(known, observed, at)
        for name, one in after.items():
            kept = name in known and known[name].status == one.status
            assert one.last_transition_time == (known[name].last_transition_time if kept else at)
        assert after[INFRA].reason == f"Reason{number}"
        known = dict(after)
