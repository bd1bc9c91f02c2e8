"""JSON Schemas of the models, as those read them who know nothing of ours."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import SerSchema

from dpp_cli.docs.openapi.parts import MEANINGS, REF, Json

# Where a rule comes from is our business.
_SOURCE = re.compile(r"\s*\((?:RUN|DEC|TIX|AUTH|WS|D|000|001|003|004)[-\s]?[\d§][^)]*\)")
INSTANT: Json = {
    "type": "string",
    "format": "date-time",
    # A time has its offset, which is never written as Z.
    "pattern": r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?[+-]\d{2}:\d{2}$",
}
_SEGMENT = "[A-Za-z0-9_-][A-Za-z0-9_.-]*"
RAW_PATH: Json = {
    "description": "RAW_PATH_ONLY: a bare relative path, without scheme, host, query or dots that lead elsewhere.",
    "type": "string",
    "maxLength": 200,
    "pattern": rf"^{_SEGMENT}(/{_SEGMENT})*$(?!\n)",  # in some languages `$` stands before a last line break, too
}


class _Generator(GenerateJsonSchema):
    """Pydantic's, but that a time which is written by `isoformat` is said to be one."""

    def ser_schema(self, schema: SerSchema) -> JsonSchemaValue | None:
        """What a field is written as, where that is not what it is."""
        if schema.get("function") is datetime.isoformat:
            return dict(INSTANT)
        return super().ser_schema(schema)


def of_models(
    models: Iterable[type[BaseModel]], mode: Literal["validation", "serialization"], template: str = REF
) -> Json:
    """The schemas of `models` and of all that they are made of, by name."""
    found: Json
    _, found = models_json_schema(
        [(model, mode) for model in models],
        ref_template=template + "{model}",
        schema_generator=_Generator,
    )
    schemas: Json = found["$defs"]
    return schemas | ({"RawPath": RAW_PATH} if "RawPath" in schemas else {})


def of_answers(models: Iterable[type[BaseModel]], template: str = REF) -> Json:
    """The same of answers: an empty member is left out, every other is there."""
    found = of_models(models, "serialization", template)
    return {name: _without_nulls(schema) for name, schema in found.items()}


def query_parameters(model: type[BaseModel], schemas: Mapping[str, Json] | None = None) -> list[Json]:
    """The members of a model of a query, all of them optional; `schemas` says what a model can't."""
    found = of_models([model], "validation")[model.__name__]["properties"]
    parameters: list[Json] = []
    for name, member in found.items():
        [schema] = [one for one in member.get("anyOf", (member,)) if one.get("type") != "null"]
        schema = (schemas or {}).get(name, schema)
        told = {"name": name, "in": "query", "required": False, "description": MEANINGS[name]}
        parameters.append(told | {"schema": schema})
    return for_readers(parameters)  # type: ignore[no-any-return]


def merged(*groups: Mapping[str, Any]) -> Json:
    """One mapping, by name. Raises ValueError where a name means two things."""
    found: Json = {}
    for group in groups:
        for name, value in group.items():
            if found.setdefault(name, value) != value:
                raise ValueError(f"two schemas are called {name}")
    return found


def one_of(told_by: str, names: Mapping[str, str], description: str) -> Json:
    """One of several schemas, told apart by a member: `names` maps its values to them."""
    refs = {value: REF + name for value, name in names.items()}
    return {
        "description": description,
        "oneOf": [{"$ref": ref} for ref in refs.values()],
        "discriminator": {"propertyName": told_by, "mapping": refs},
    }


def _without_nulls(schema: Json) -> Json:
    """An answer's schema as it goes out."""
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
    """Without pydantic's titles and the marks of our own requirements."""
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
