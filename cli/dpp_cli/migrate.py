"""Migrations of the database, as the command and the tests run them; the deployment's run in `functions/migrate`."""

from types import ModuleType

from dpp_cli.paths import ROOT, importable


def upgrade(database_url: str, revision: str = "head") -> None:
    """Bring the database at `database_url` (`postgresql://…`) up to `revision`."""
    _runner().upgrade(database_url, revision)


def downgrade(database_url: str, revision: str = "base") -> None:
    """Take the database at `database_url` back to `revision`; rows of dropped tables are lost."""
    _runner().downgrade(database_url, revision)


def _runner() -> ModuleType:
    """`migrations/` stands in the checkout and is no part of the command's package."""
    importable(ROOT)
    from migrations import runner  # noqa: PLC0415

    return runner
