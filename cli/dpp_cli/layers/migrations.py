"""Builds the layer of the function `migrate`: Alembic and `migrations/`."""

import shutil
from pathlib import Path

from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.paths import MIGRATIONS, MIGRATIONS_LAYER


def build_migrations_layer(architecture: str | None = None) -> Path:
    """Build it unless it is up to date; return its root. `architecture` as for the packages. Raises ToolError."""
    sources = sorted((*MIGRATIONS.rglob("*.py"), *MIGRATIONS.rglob("*.sql")))
    return build_packages_layer(
        MIGRATIONS_LAYER,
        ["--only-group", "migrations"],
        architecture,
        extend=lambda python: _copy(python / MIGRATIONS.name),
        made_from=sources,
    )


def _copy(target: Path) -> None:
    shutil.copytree(MIGRATIONS, target, ignore=shutil.ignore_patterns("__pycache__"))
