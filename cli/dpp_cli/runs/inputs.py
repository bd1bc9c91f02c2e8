"""The inputs of a run as words of a command: files of JSON, names with their values."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import typer

_PAIR = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?P<how>:?=)(?P<value>.*)", re.DOTALL)
_STDIN = "-"


def read_inputs(words: Sequence[str]) -> dict[str, Any]:
    """What the words say together; a name with its value stands above what a file says. Raises BadParameter.

    `FILE`: a JSON object, `-` from standard input. `name=text`, `name=@FILE` with the file's text, `name:=JSON`.
    """
    found = [(word, _PAIR.fullmatch(word)) for word in words]
    if sum(_is_stdin(word, pair) for word, pair in found) > 1:
        raise typer.BadParameter("standard input can be read once")
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
        return _json(value, f"{name} is no JSON")
    return _text(value[1:]) if value.startswith("@") else value


def _object(source: str) -> dict[str, Any]:
    told = "standard input" if source == _STDIN else source
    document = _json(_text(source), f"{told} is no JSON")
    if not isinstance(document, dict):
        raise typer.BadParameter(f"{told} is no JSON object")
    return document


def _text(source: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if source == _STDIN else Path(source).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"can't read {source}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise typer.BadParameter(f"{source} is no UTF-8 text") from None


def _json(text: str, fault: str) -> Any:
    """As strict as the API: what that refuses is not made another thing on the way (a name twice, NaN)."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(f"{fault}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
