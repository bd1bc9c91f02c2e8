"""Formats command output: text written by users, durations and times, name-value lists, tables, JSON."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

import typer
from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dpp_cli.operator.tenants import console

_TABLE_COLUMNS = 140


def plain(text: str) -> Text:
    """Make text safe for a terminal: no markup, no control characters that move the cursor."""
    return Text("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text))


def plain_lines(text: str) -> Text:
    """Make multi-line text, such as a stack trace, safe for a terminal."""
    return Text("\n").join(plain(line.expandtabs(4)) for line in text.split("\n"))


def span(seconds: float) -> str:
    """Format a duration for people, e.g. `2 h 5 min`."""
    minutes = max(0, int(seconds)) // 60
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def ago(since: datetime, now: datetime) -> str:
    """Format the time since `since`."""
    return span((now - since).total_seconds())


def until(at: datetime, now: datetime) -> str:
    """Format the time until `at`, or how long it has been due."""
    seconds = int((at - now).total_seconds())
    if seconds < 0:
        return f"due for {span(-seconds)}"
    return f"in {seconds} s" if seconds < 120 else f"in {span(seconds)}"


def moment(at: datetime | None, zone: ZoneInfo) -> str:
    """Format a time for a table cell; empty for None."""
    return "" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S%z}"


def short(at: datetime | None, zone: ZoneInfo) -> str:
    """Format a time for a list, without year and seconds; empty for None."""
    return "" if at is None else f"{at.astimezone(zone):%m-%d %H:%M}"


def print_note(text: str) -> None:
    """Print a note to stderr; stdout carries only the requested data."""
    typer.echo(text, err=True)


def print_values(values: Mapping[str, str | None], *, indent: str = "") -> None:
    """Print names and values, one pair per line, without those whose value is None."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        if value is not None:
            console.print(Text(f"{indent}{name:<{width}}  ") + plain(value), soft_wrap=True)


def print_rows(
    names: Sequence[str],
    rows: Iterable[Iterable[str]],
    *,
    whole: Collection[str] = (),
    right: Collection[str] = (),
    folded: Collection[str] = (),
    title: str | None = None,
) -> None:
    """Print a table. Cells are safe for a terminal, and a narrow one wraps lines but never ids.

    Columns by name: `whole` are never broken, such as ids; `right` are aligned right; `folded` are broken anywhere, but
    never cut.
    """
    table = Table(*names, title=title, box=None, header_style="dim", pad_edge=False)
    for name, column in zip(names, table.columns, strict=True):
        column.no_wrap = name in whole
        column.justify = "right" if name in right else "left"
        column.overflow = "fold" if name in folded else "ellipsis"
    for cells in rows:
        table.add_row(*map(plain, cells))
    Console(width=max(console.width, _TABLE_COLUMNS)).print(table)


def as_json(document: object) -> str:
    """Serialize a value as ASCII JSON, which is safe to print to a terminal."""
    return json.dumps(to_jsonable_python(document))


def as_array(documents: Iterable[BaseModel]) -> str:
    """Serialize models as one JSON array."""
    return "[" + ", ".join(one.model_dump_json(by_alias=True, exclude_none=True) for one in documents) + "]"


def faults(error: ValidationError, prefix: str) -> str:
    """Describe each invalid field in one line, without repeating the given values."""
    return "; ".join(
        f"{prefix}{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
        for one in error.errors(include_url=False, include_input=False)
    )
