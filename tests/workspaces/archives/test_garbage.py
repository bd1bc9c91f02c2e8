"""The rules of the collection, in the document's order, one row per case (003 §9; WS-13)."""

import pytest

from dpp.workspaces.archives.garbage import GRACE_SECONDS, ArchiveReferences, Verdict, verdict
from dpp.workspaces.model import archive_key_of
from tests.workspaces.rows import OP, OTHER_KEY, OTHER_OP, OWN_KEY, WORKSPACE

OLD = GRACE_SECONDS

# Deleted, healthy, archive_key, op_id → the verdict on the archive of OP.
CASES = [
    # 1: deleted. The archive in archive_key is protected, the one of op_id is not, and ERROR protects nothing.
    (True, True, OWN_KEY, OP, Verdict.ARCHIVE_KEY),
    (True, False, OWN_KEY, None, Verdict.ARCHIVE_KEY),
    (True, True, None, OP, Verdict.GARBAGE),
    (True, False, None, OP, Verdict.GARBAGE),
    (True, False, OTHER_KEY, OP, Verdict.GARBAGE),
    # 2: unhealthy. Both are protected, and so are older ones.
    (False, False, OWN_KEY, None, Verdict.ARCHIVE_KEY),
    (False, False, None, OP, Verdict.UNHEALTHY),
    (False, False, OTHER_KEY, OP, Verdict.UNHEALTHY),
    (False, False, OTHER_KEY, OTHER_OP, Verdict.UNHEALTHY),
    # 3: of the operation.
    (False, True, None, OP, Verdict.OPERATION),
    (False, True, OTHER_KEY, OP, Verdict.OPERATION),
    (False, True, OWN_KEY, OTHER_OP, Verdict.ARCHIVE_KEY),
    # Unprotected.
    (False, True, None, OTHER_OP, Verdict.GARBAGE),
    (False, True, OTHER_KEY, OTHER_OP, Verdict.GARBAGE),
    (False, True, None, None, Verdict.GARBAGE),
]


@pytest.mark.parametrize(("deleted", "healthy", "archive_key", "op_id", "expected"), CASES)
def test_first_rule_that_applies_decides(
    deleted: bool, healthy: bool, archive_key: str | None, op_id: object, expected: Verdict
) -> None:
    """WS-13."""
    references = ArchiveReferences(deleted, healthy, archive_key, op_id)  # type: ignore[arg-type]
    assert verdict(OWN_KEY, OLD, references) is expected


@pytest.mark.parametrize(("deleted", "healthy", "archive_key", "op_id", "expected"), CASES)
def test_nothing_is_deleted_within_two_hours(
    deleted: bool, healthy: bool, archive_key: str | None, op_id: object, expected: Verdict
) -> None:
    """WS-13, whatever the rules say."""
    references = ArchiveReferences(deleted, healthy, archive_key, op_id)  # type: ignore[arg-type]
    assert verdict(OWN_KEY, OLD - 0.001, references) is Verdict.YOUNG


def test_proof_has_the_verdict_of_its_archive() -> None:
    key = OWN_KEY.replace("home.tar.zst", "proof.json")
    assert verdict(key, OLD, ArchiveReferences(False, True, OWN_KEY, None)) is Verdict.ARCHIVE_KEY
    assert verdict(key, OLD, ArchiveReferences(False, True, None, None)) is Verdict.GARBAGE


def test_unknown_workspace_keeps_its_archives() -> None:
    """The database may have been restored to another time than the bucket."""
    assert verdict(OWN_KEY, 10 * OLD, None) is Verdict.UNKNOWN_WORKSPACE


@pytest.mark.parametrize(
    "key",
    [
        "",
        "home.tar.zst",
        f"{WORKSPACE}/home.tar.zst",
        f"{WORKSPACE}/{OP}/deep/home.tar.zst",
        f"{str(WORKSPACE).upper()}/{OP}/home.tar.zst".replace("1111", "AAAA"),
        f"{WORKSPACE}/{OP}/",
        f"x{archive_key_of(WORKSPACE, OP)}",
        f"{WORKSPACE}/../{OP}/home.tar.zst",
    ],
)
def test_object_with_another_form_of_key_is_kept(key: str) -> None:
    """WS-13."""
    assert verdict(key, OLD, ArchiveReferences(True, True, None, None)) is Verdict.FOREIGN
