"""Builds the layer that only the operate function has: typer and rich, and of this command what operators need.

Of the command nothing that builds, deploys or starts a local stack: those modules stay on the machine they work on.
"""

import shutil
from pathlib import Path

from dpp_cli.layers import build_packages_layer
from dpp_cli.paths import OPERATE_LAYER

_PACKAGE = Path(__file__).parent
MODULES = (
    "__init__",
    "errors",
    "reach",
    "operate",
    "ledger",
    "dlq",
    "dispute",
    "rows",
    "shown",
    "operator_keys",
    "tickets",
    "reaper",
    "ops",
    "auth_errors",
    "auth_error_events",
    "auth_error_letters",
    "auth_error_policies",
    "workspaces",
    "lifecycle",
    "lifecycle_events",
    "lifecycle_standing",
    "lifecycle_tasks",
    "workspace_repairs",
    "top",
    "top_figures",
    "top_gather",
    "top_judge",
    "top_live",
    "top_model",
    "top_parts",
    "top_screen",
    "top_view",
    "operators",
)
"""What `operators` imports, all of it."""


def build_operate_layer(architecture: str | None = None) -> Path:
    """Build it unless it is up to date; return its root. `architecture` as for the packages. Raises ToolError."""
    return build_packages_layer(
        OPERATE_LAYER,
        ["--only-group", "operate"],
        architecture,
        extend=lambda python: _copy(python / _PACKAGE.name),
        made_from=sources(),
    )


def sources() -> list[Path]:
    """The files of the command that the layer is made of."""
    return [_PACKAGE / f"{name}.py" for name in MODULES]


def _copy(target: Path) -> None:
    target.mkdir()
    for source in sources():
        shutil.copyfile(source, target / source.name)
