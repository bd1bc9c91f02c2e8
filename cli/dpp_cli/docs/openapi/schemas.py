"""JSON Schemas of the models, written for readers outside this project."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import SerSchema

from dpp_cli.docs.openapi.parts import MEANINGS, REF, Json

# Requirement numbers are internal.
_SOURCE = re.compile(r"\s*\((?:RUN|DEC|TIX|AUTH|WS|D|000|001|003|004)[-\s]?[\d§][^)]*\)")
INSTANT: Json = {
    "type": "string",
    "format": "date-time",
    # Times have a numeric offset, never Z.
    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$",
}
_SEGMENT = "[A-Za-z0-9_-][A-Za-z0-9_.-]*"
RAW_PATH: Json = {
    "description": "RAW_PATH_ONLY: a bare relative path, without scheme, host, query or dots that lead elsewhere.",
    "type": "string",
    "maxLength": 200,
    "pattern": rf"^{_SEGMENT}(/{_SEGMENT})*$(?!\n)",  # in some languages `$` also matches before a final line break
}


class _Generator(GenerateJsonSchema):
    """Pydantic's generator, which also marks times written by `isoformat` as date-time."""

    def ser_schema(self, schema: SerSchema) -> JsonSchemaValue | None:
        """Return the schema of a field's serialized form."""
        if schema.get("function") is datetime.isoformat:
            return dict(INSTANT)
        return super().ser_schema(schema)


def of_models(
    models: Iterable[type[BaseModel]], mode: Literal["validation", "serialization"], template: str = REF
) -> Json:
    """Return the schemas of `models` and their parts by name."""
    found: Json
    _, found = models_json_schema(
        [(model, mode) for model in models], ref_template=template + "{model}", schema_generator=_Generator
    )
    schemas: Json = found["$defs"]
    return schemas | ({"RawPath": RAW_PATH} if "RawPath" in schemas else {})


def of_answers(models: Iterable[type[BaseModel]], template: str = REF) -> Json:
    """Return response schemas: every member is required unless it may be omitted when empty."""
    found = of_models(models, "serialization", template)
    return {name: _without_nulls(schema) for name, schema in found.items()}


def query_parameters(model: type[BaseModel], schemas: Mapping[str, Json] | None = None) -> list[Json]:
    """Return the parameters of a query model, all optional; `schemas` overrides what a model can't express."""
    found = of_models([model], "validation")[model.__name__]["properties"]
    parameters: list[Json] = []
    for name, member in found.items():
        [schema] = [one for one in member.get("anyOf", (member,)) if one.get("type") != "null"]
        schema = (schemas or {}).get(name, schema)
        parameter = {"name": name, "in": "query", "required": False, "description": MEANINGS[name]}
        parameters.append(parameter | {"schema": schema})
    return for_readers(parameters)  # type: ignore[no-any-return]


def merged(*groups: Mapping[str, Any]) -> Json:
    """Merge mappings by name. Raises ValueError if a name has two meanings."""
    found: Json = {}
    for group in groups:
        for name, value in group.items():
            if found.setdefault(name, value) != value:
                raise ValueError(f"two schemas are called {name}")
    return found


def one_of(discriminator: str, names: Mapping[str, str], description: str) -> Json:
    """Describe one of several schemas, discriminated by a member: `names` maps its values to them."""
    refs = {value: REF + name for value, name in names.items()}
    return {
        "description": description,
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": discriminator, "mapping": refs},
    }


def _without_nulls(schema: Json) -> Json:
    """Return a response schema in serialized form."""
    properties: Json = {}
    required: list[str] = []
    for name, member in schema.get("properties", {}).items():
        branches = [branch for branch in member.get("anyOf", ()) if branch.get("type") != "null"]
        plain = {key: value for key, value in member.items() if key not in {"anyOf", "default"}}
        properties[name] = plain | branches[0] if branches else plain
        if not branches:
            required.append(name)
    return schema | {"properties": properties, "required": required} if properties else schema


def for_readers(node: Any) -> Any:
    """Remove pydantic's titles and requirement numbers."""
    if isinstance(node, list):
        return [for_readers(item) for item in node]
    if not isinstance(node, dict):
        return node
    cleaned = {name: for_readers(value) for name, value in node.items() if not _is_title(name, value)}
    if isinstance(cleaned.get("description"), str):
        cleaned["description"] = _SOURCE.sub("", cleaned["description"])
    return cleaned


def _is_title(name: str, value: object) -> bool:
    return name == "title" and isinstance(value, str)
