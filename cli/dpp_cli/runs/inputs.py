"""Parses a run's inputs from command-line words: JSON files and name-value pairs."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer

from dpp_cli.errors import StackError

_PAIR = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<how>:?=)(?P<value>.*)", re.DOTALL)
_STDIN = "-"


def read_inputs(words: Sequence[str]) -> dict[str, Any]:
    """Combine all words into one inputs object; named values override those of files. Raises BadParameter.

    `FILE`: a JSON object, `-` from standard input. `name=text`, `name=@FILE` with the file's text, `name:=JSON`.
    """
    found = [(word, _PAIR.fullmatch(word)) for word in words]
    if sum(_is_stdin(word, pair) for word, pair in found) > 1:
        raise typer.BadParameter("standard input (-) can be used only once")
    inputs: dict[str, Any] = {}
    for word, pair in found:
        if pair is None:
            inputs |= _object(word)
    named: dict[str, Any] = {}
    for _, pair in found:
        if pair is not None:
            if pair["name"] in named:
                raise typer.BadParameter(f"{pair['name']} was given twice")
            named[pair["name"]] = _value(pair["name"], pair["how"], pair["value"])
    return inputs | named


def _is_stdin(word: str, pair: re.Match[str] | None) -> bool:
    return word == _STDIN if pair is None else (pair["how"], pair["value"]) == ("=", f"@{_STDIN}")


def _value(name: str, how: str, value: str) -> Any:
    if how == ":=":
        return _json(value, f"{name} is not valid JSON")
    return _text(value[1:]) if value.startswith("@") else value


def _object(source: str) -> dict[str, Any]:
    label = "standard input" if source == _STDIN else source
    document = _json(_text(source), f"{label} is not valid JSON")
    if not isinstance(document, dict):
        raise typer.BadParameter(f"{label} is not a JSON object")
    return document


def _text(source: str) -> str:
    if source == _STDIN and sys.stdin is None:
        raise StackError("standard input is closed: `-` reads the inputs from it")
    try:
        raw = sys.stdin.buffer.read() if source == _STDIN else Path(source).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"can't read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{source} is not UTF-8 text") from None


def _json(text: str, fault: str) -> Any:
    """Parse JSON as strictly as the API does: no duplicate names, no NaN or Infinity."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{fault}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a name twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
