"""Renders JSON Schemas for people: type, limits and members."""

import json
from collections.abc import Iterator
from typing import Any

from dpp_cli.docs.api_page.markup import Markup, join, listed, prose, tag

type Schema = dict[str, Any]

_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
)


def kind(schema: Schema) -> Markup:
    """Describe a value's type; other schemas become links."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return tag("a", name, href=f"#schema-{name}")
    if "const" in schema:
        return _value(schema["const"])
    if "enum" in schema:
        return listed([_value(one) for one in schema["enum"]], ", ")
    for word, several in ((" or ", "oneOf"), (" or ", "anyOf"), (" and ", "allOf")):
        if several in schema:
            return listed([kind(one) for one in schema[several] if set(one) != {"properties"}], word)
    return _plain(schema)


def _plain(schema: Schema) -> Markup:
    """By its type alone."""
    if schema.get("type") == "array":
        return join("array of ", kind(schema.get("items", {})))
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return join("object, each member ", kind(schema["additionalProperties"]))
    types = schema.get("type", "anything")
    named = " or ".join(types) if isinstance(types, list) else str(types)
    return join(f"{named} ({schema['format']})" if "format" in schema else named)


def limits(schema: Schema) -> Markup:
    """Describe a value's limits and default; empty if there are none."""
    inner = schema.get("items", {}) if schema.get("type") == "array" else {}
    bounds = [join(words.format(schema[key])) for key, words in _BOUNDS if key in schema]
    bounds += [join("each ", words.format(inner[key])) for key, words in _BOUNDS if key in inner]
    for where, prefix in ((schema, ""), (inner, "each ")):
        if "pattern" in where:
            bounds.append(join(prefix, "matches ", tag("code", where["pattern"])))
    if "default" in schema:
        bounds.append(join(_value(schema["default"]), " if not given"))
    return tag("p", listed(bounds, "; "), class_="limits") if bounds else Markup()


def content_of(schema: Schema) -> Markup:
    """Render a schema's description and members."""
    rows = [_member(*one) for one in _members(schema)]
    parts = [prose(schema.get("description", ""))]
    if "properties" not in schema:
        parts.append(tag("p", kind(schema), class_="kind"))
        parts.append(limits(schema))
    if rows:
        parts.append(tag("dl", *rows))
    if schema.get("additionalProperties") is False:
        parts.append(tag("p", "No other members are allowed.", class_="limits"))
    return join(*parts)


def _members(schema: Schema, above: str = "") -> Iterator[tuple[str, Schema, bool]]:
    """Yield members by name; members of anonymous objects follow them."""
    required = schema.get("required", ())
    for name, member in schema.get("properties", {}).items():
        yield f"{above}{name}", member, name in required
        items = member.get("items", {})
        yield from _members(member, f"{above}{name}.")
        if isinstance(items, dict):
            yield from _members(items, f"{above}{name}[].")


def _member(name: str, schema: Schema, required: bool) -> Markup:
    needed = tag("span", "required", class_="required") if required else tag("span", "optional", class_="optional")
    return join(
        tag("dt", tag("code", name), " ", needed, " ", tag("span", kind(schema), class_="kind")),
        tag("dd", prose(schema.get("description", "")), limits(schema)),
    )


def _value(value: object) -> Markup:
    return tag("code", json.dumps(value, ensure_ascii=False))
