"""Reads the one object that a model was asked for out of its reply's text.

Models put an object into code fences, after a polite sentence or after their thoughts. All this is left out. What is
not exactly one object of the requested shape is a failure, because a guess would be charged as an answer.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NoReturn

from pydantic import BaseModel, ValidationError

from dpp.packs.models.asking import Fault, ModelError

MAX_REPLY_CHARACTERS = 200_000
_MAX_STARTS = 50
"""At most this many places are tried as the start of an object, which keeps hostile replies cheap."""
_OPEN = re.compile(r"\s*<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)


def read_object[T: BaseModel](text: str, shape: type[T]) -> T:
    """The one object of `shape` in a reply. Raises ModelError: EMPTY, CUT, GARBAGE or TWICE."""
    if len(text) > MAX_REPLY_CHARACTERS:
        raise ModelError(Fault.GARBAGE, "a reply that is too long")
    said = _without_thoughts(text).strip()
    if not said:
        raise ModelError(Fault.EMPTY, "an empty reply")
    return the_one(valid(_objects(said), shape))


def valid[T: BaseModel](candidates: Iterable[object], shape: type[T]) -> list[T]:
    """The candidates of the shape, each value once."""
    found: list[T] = []
    for candidate in candidates:
        try:
            value = shape.model_validate(candidate)
        except ValidationError:
            continue
        if value not in found:
            found.append(value)
    return found


def the_one[T](found: list[T]) -> T:
    """The only element. Raises ModelError: GARBAGE if there is none, TWICE if there are several."""
    if not found:
        raise ModelError(Fault.GARBAGE, "a reply without the requested object")
    if len(found) > 1:
        raise ModelError(Fault.TWICE, "a reply with more than one answer")
    return found[0]


def _without_thoughts(text: str) -> str:
    """The text after the model's thoughts. Raises ModelError(CUT) if they don't end."""
    if text.lstrip().startswith("{"):
        return text  # an answer at once; tags inside are its own words
    rest = text
    while _OPEN.match(rest):
        close = _CLOSE.search(rest)
        if close is None:
            raise ModelError(Fault.CUT, "a reply that ends in a thought")
        rest = rest[close.end() :]
    # Some servers leave out the opening tag, which was part of the prompt.
    *_, after = _CLOSE.split(rest)
    return after if "{" in after else rest


def _objects(text: str) -> Iterator[dict[str, object]]:
    """The JSON objects in the text, from left to right, none inside another."""
    decoder = json.JSONDecoder(parse_constant=_no_constant)
    at = text.find("{")
    for _ in range(_MAX_STARTS):
        if at < 0:
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            yield value
        at = text.find("{", end)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
