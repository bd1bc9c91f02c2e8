"""How the commands of what stands in rows alone print: text that people wrote, times, names with their values."""

import json
from collections.abc import Iterable, Mapping
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
    """Text that somebody wrote, as it may stand in a terminal: no markup, nothing that moves the cursor."""
    return Text("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text))


def plain_lines(text: str) -> Text:
    """The same of several lines, such as a stack trace."""
    return Text("\n").join(plain(line.expandtabs(4)) for line in text.split("\n"))


def span(seconds: float) -> str:
    """How long that is, as people say it."""
    minutes = max(0, int(seconds)) // 60
    days, hours = divmod(minutes // 60, 24)
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min" if hours else f"{minutes} min"


def ago(since: datetime, now: datetime) -> str:
    """How long ago that was."""
    return span((now - since).total_seconds())


def until(at: datetime, now: datetime) -> str:
    """When that will be, or for how long it has been due."""
    seconds = int((at - now).total_seconds())
    if seconds < 0:
        return f"due for {span(-seconds)}"
    return f"in {seconds} s" if seconds < 120 else f"in {span(seconds)}"


def moment(at: datetime | None, zone: ZoneInfo) -> str:
    """A time in a table."""
    return "" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S%z}"


def say(text: str) -> None:
    """Talk, which goes to stderr: stdout is what was asked for."""
    typer.echo(text, err=True)


def print_values(values: Mapping[str, str | None], *, indent: str = "") -> None:
    """Names and values, one a line; those that are None are left out."""
    width = max(map(len, values), default=0)
    for name, value in values.items():
        if value is not None:
            console.print(Text(f"{indent}{name:<{width}}  ") + plain(value), soft_wrap=True)


def print_table(table: Table) -> None:
    """A table that begins with an id of 36 characters: a narrow terminal breaks its lines, but never its words."""
    Console(width=max(console.width, _TABLE_COLUMNS)).print(table)


def as_json(document: object) -> str:
    """One JSON document of what has no model of the API's, in ASCII: nothing in it moves a cursor."""
    return json.dumps(to_jsonable_python(document))


def as_array(documents: Iterable[BaseModel]) -> str:
    """One JSON array of what the API answers one by one."""
    return "[" + ", ".join(one.model_dump_json(by_alias=True, exclude_none=True) for one in documents) + "]"


def faults(error: ValidationError, prefix: str) -> str:
    """Each place and what it needs, in one sentence; never what was given."""
    return "; ".join(
        f"{prefix}{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
        for one in error.errors(include_url=False, include_input=False)
    )
