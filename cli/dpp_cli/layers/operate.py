"""Builds the layer of the function `operate`: typer, rich and the operator commands.

Modules that build, deploy or run a local stack are not included.
"""

import shutil
from pathlib import Path

from dpp_cli.layers.packages import build_packages_layer
from dpp_cli.paths import OPERATE_LAYER

_PACKAGE = Path(__file__).parents[1]
PARTS = (
    *("__init__.py", "errors.py"),
    *("operator", "runs", "money", "tickets", "auth_errors", "workspaces", "lifecycle", "top"),
)
"""Files and folders of `dpp_cli` with the modules that `operator.app` imports."""
LEFT_OUT = ("operator/remote.py", "top/remote.py", "runs/commands.py", "runs/inputs.py", "runs/output.py")
"""Modules in those folders that work only on the caller's own machine."""


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
    """The files of the command that the layer consists of."""
    named = [_PACKAGE / part for part in PARTS]
    files = (file for path in named for file in ([path] if path.is_file() else path.rglob("*.py")))
    return sorted({*files} - {_PACKAGE / name for name in LEFT_OUT})


def _copy(target: Path) -> None:
    for source in sources():
        copied = target / source.relative_to(_PACKAGE)
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copied)
