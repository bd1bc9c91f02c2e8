"""Database migrations for the command and the tests; a deployment runs them in `functions/migrate`."""

from types import ModuleType

from dpp_cli.paths import ROOT, importable


def upgrade(database_url: str, revision: str = "head") -> None:
    """Migrate the database at `database_url` (`postgresql://…`) up to `revision`."""
    _runner().upgrade(database_url, revision)


def downgrade(database_url: str, revision: str = "base") -> None:
    """Migrate the database at `database_url` down to `revision`; rows of dropped tables are lost."""
    _runner().downgrade(database_url, revision)


def _runner() -> ModuleType:
    """Import the runner from `migrations/`, which is in the checkout but not in this package."""
    importable(ROOT)
    from migrations import runner  # noqa: PLC0415

    return runner
