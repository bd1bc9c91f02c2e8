"""Which archives may go: the document's rules in their order, one row a case (003 §9; WS-13)."""

import pytest

from dpp.workspaces.archives.garbage import GRACE_SECONDS, ArchiveReferences, Verdict, verdict
from dpp.workspaces.model import archive_key_of
from tests.workspaces.rows import OP, OTHER_KEY, OTHER_OP, OWN_KEY, WORKSPACE

OLD = GRACE_SECONDS

# Deleted, healthy, archive_key, op_id → the verdict on the archive of OP.
CASES = [
    # 1: deleted. What archive_key names is protected, what op_id names isn't, and ERROR protects nothing.
    (True, True, OWN_KEY, OP, Verdict.ARCHIVE_KEY),
    (True, False, OWN_KEY, None, Verdict.ARCHIVE_KEY),
    (True, True, None, OP, Verdict.GARBAGE),
    (True, False, None, OP, Verdict.GARBAGE),
    (True, False, OTHER_KEY, OP, Verdict.GARBAGE),
    # 2: unhealthy. Both paths are protected, and so is what is older.
    (False, False, OWN_KEY, None, Verdict.ARCHIVE_KEY),
    (False, False, None, OP, Verdict.UNHEALTHY),
    (False, False, OTHER_KEY, OP, Verdict.UNHEALTHY),
    (False, False, OTHER_KEY, OTHER_OP, Verdict.UNHEALTHY),
    # 3: an operation's own.
    (False, True, None, OP, Verdict.OPERATION),
    (False, True, OTHER_KEY, OP, Verdict.OPERATION),
    (False, True, OWN_KEY, OTHER_OP, Verdict.ARCHIVE_KEY),
    # Nothing protects it.
    (False, True, None, OTHER_OP, Verdict.GARBAGE),
    (False, True, OTHER_KEY, OTHER_OP, Verdict.GARBAGE),
    (False, True, None, None, Verdict.GARBAGE),
]


@pytest.mark.parametrize(("deleted", "healthy", "archive_key", "op_id", "expected"), CASES)
def test_the_first_rule_that_speaks_decides(
    deleted: bool, healthy: bool, archive_key: str | None, op_id: object, expected: Verdict
) -> None:
    """WS-13."""
    references = ArchiveReferences(deleted, healthy, archive_key, op_id)  # type: ignore[arg-type]
    assert verdict(OWN_KEY, OLD, references) is expected


@pytest.mark.parametrize(("deleted", "healthy", "archive_key", "op_id", "expected"), CASES)
def test_nothing_goes_within_two_hours(
    deleted: bool, healthy: bool, archive_key: str | None, op_id: object, expected: Verdict
) -> None:
    """WS-13, whatever the rules say."""
    references = ArchiveReferences(deleted, healthy, archive_key, op_id)  # type: ignore[arg-type]
    assert verdict(OWN_KEY, OLD - 0.001, references) is Verdict.YOUNG


def test_the_proof_beside_an_archive_has_the_same_verdict() -> None:
    """One goes with the other."""
    key = OWN_KEY.replace("home.tar.zst", "proof.json")
    assert verdict(key, OLD, ArchiveReferences(False, True, OWN_KEY, None)) is Verdict.ARCHIVE_KEY
    assert verdict(key, OLD, ArchiveReferences(False, True, None, None)) is Verdict.GARBAGE


def test_a_workspace_that_no_row_knows_keeps_its_archives() -> None:
    """The rows may be of another day than the bucket: a restored database must not empty it."""
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
def test_what_is_none_of_ours_is_left_alone(key: str) -> None:
    """WS-13: whatever else lies in the bucket."""
    assert verdict(key, OLD, ArchiveReferences(True, True, None, None)) is Verdict.FOREIGN
