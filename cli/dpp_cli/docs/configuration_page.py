"""Writes docs/configuration.md from the functions' settings models: `python -m dpp_cli.docs.configuration_page`."""

from collections.abc import Iterator, Mapping
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpp.packs.ocr.settings import OcrSettings
from dpp.platform.config import Settings
from dpp.workspaces.providers.aws_settings import AwsWorkspaceSettings
from dpp_cli.paths import ROOT, importable

PATH = ROOT / "docs" / "configuration.md"

_HEAD = """# Configuration

Every environment variable that a function reads. Generated from the functions' settings models
(`functions/*/handler.py`), which check each value when a container starts: a missing or wrong value fails the start
and is named in the error. An empty value counts as unset. On AWS the stacks set the variables, from their own resources
and from the options of a deployment ([deploy.md](deploy.md#deploy)); on the local stack `dpp local up` passes them on
([local-stack.md](local-stack.md#switches)).

- The servers' addresses are given in one of two ways: `DATABASE_URL`, or `DATABASE_HOST` with `DATABASE_SECRET_ARN`;
  `REDIS_URL`, or `REDIS_HOST` with `REDIS_SECRET_ARN`. The URL wins.
- A value marked secret is never printed. On AWS it is stored in Secrets Manager, not in an environment variable.
- The last column lists the functions in `functions/` that read the variable.

| variable | type | if not given | range | meaning | read by |
|---|---|---|---|---|---|
"""
_TYPES = {str: "text", int: "integer", float: "number", bool: "`1` or `0`", tuple: "list"}
_RANGES = (("ge", "at least {}"), ("gt", "more than {}"), ("le", "at most {}"))
_LENGTHS = (("min_length", "at least {}"), ("max_length", "at most {}"))

type Reads = dict[str, list[tuple[str, FieldInfo]]]


def render() -> str:
    """The whole page."""
    reads = read_by()
    names = {name for found in reads.values() for name, _ in found}
    rows = [_row(variable, reads[variable], names) for variable in sorted(reads, key=_order)]
    return _HEAD + "\n".join(rows) + "\n"


def read_by() -> Reads:
    """Map each variable to the functions that read it and their fields."""
    found: Reads = {}
    for function, models in _models().items():
        for model in models:
            for field in model.model_fields.values():
                if field.alias:
                    found.setdefault(field.alias, []).append((function, field))
    return found


def _models() -> Mapping[str, list[type[Settings]]]:
    importable(ROOT / "cdk")
    from dpp_cdk.functions.table import FUNCTIONS  # noqa: PLC0415 - no part of this package

    models = {spec.name: [spec.settings] for spec in FUNCTIONS}
    models["run_worker"].append(OcrSettings)  # by its pack process
    for spec in FUNCTIONS:
        if spec.mounts_homes:
            models[spec.name].append(AwsWorkspaceSettings)
    return models


def _order(variable: str) -> tuple[bool, str]:
    """Sort key: the servers' addresses come first."""
    return variable.startswith("DPP_"), variable


def _row(variable: str, found: list[tuple[str, FieldInfo]], names: set[str]) -> str:
    _, field = found[0]
    cells = (
        f"`{variable}`",
        _type(field),
        _default(variable, found),
        "; ".join(_range(field)),
        field.description or "",
        _functions([name for name, _ in found], names),
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(field: FieldInfo) -> str:
    kinds = [kind for kind in (get_args(field.annotation) or (field.annotation,)) if kind is not NoneType]
    kind: Any = kinds[0]
    if get_origin(field.annotation) is Literal:
        named = " or ".join(f"`{one}`" for one in kinds)
    elif get_origin(field.annotation) is tuple:
        named = "texts between commas"
    elif isinstance(kind, type) and issubclass(kind, BaseModel):
        named = "JSON object"
    else:
        named = _TYPES[kind]
    return named if field.repr else f"{named}, secret"


def _default(variable: str, found: list[tuple[str, FieldInfo]]) -> str:
    """Return the default, which must be the same in all functions that have one."""
    if all(field.is_required() for _, field in found):
        return "required"
    needed = [name for name, field in found if field.is_required()]
    described = {_shown(field) for _, field in found if not field.is_required()}
    if len(described) != 1:
        raise ValueError(f"{variable} has several defaults: {sorted(described)}")
    [shown] = described
    optional = [name for name, field in found if not field.is_required()]
    return f"required ({', '.join(f'`{name}`' for name in optional)}: {shown})" if needed else shown


def _shown(field: FieldInfo) -> str:
    default = field.default
    if default is None or default == "":
        return "none"
    if isinstance(default, bool):
        return f"`{int(default)}`"
    if isinstance(default, BaseModel):
        return "the periods of [deploy.md](deploy.md#retention)"
    return f"`{default}`"


def _range(field: FieldInfo) -> Iterator[str]:
    for constraint in field.metadata:
        if (pattern := getattr(constraint, "pattern", None)) is not None:
            yield f"matches `{pattern}`"
        for name, described in _RANGES:
            if (bound := getattr(constraint, name, None)) is not None:
                yield described.format(f"{bound:,}")
        for name, described in _LENGTHS:
            if (bound := getattr(constraint, name, None)) is not None:
                unit = "entries" if get_origin(field.annotation) is tuple else "characters"
                yield f"{described.format(bound)} {unit}" if bound > 1 else "not empty"


def _functions(readers: list[str], names: set[str]) -> str:
    """List the functions by name, or all except those that do not read it."""
    others = sorted(names - set(readers))
    if len(others) < len(readers) / 4:
        return f"all but {', '.join(f'`{name}`' for name in others)}"
    return ", ".join(f"`{name}`" for name in sorted(readers))


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
