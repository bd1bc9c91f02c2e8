"""Reading the one object out of a model's reply (RUN-25)."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from dpp.packs.models.asking import Fault, ModelError
from dpp.packs.models.reading import MAX_REPLY_CHARACTERS, read_object
from dpp.packs.models.schema import reply_schema


class Said(BaseModel):
    """The shape that the tests ask for."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    answer: str = Field(min_length=1)
    sure: float = Field(ge=0, le=1)


class Nested(BaseModel):
    """A shape with another inside, and a property with a keyword's name."""

    title: str = "x"
    parts: list[Said]


OBJECT = '{"answer": "Yes {and} no.", "sure": 0.7}'
WANTED = Said(answer="Yes {and} no.", sure=0.7)


def fault(text: str) -> Fault:
    with pytest.raises(ModelError) as failure:
        read_object(text, Said)
    assert text[:40] not in str(failure.value) or not text
    return failure.value.fault


@pytest.mark.parametrize(
    "text",
    [
        OBJECT,
        f"\ufeff \n{OBJECT}\n",
        f"```json\n{OBJECT}\n```",
        f"~~~\n{OBJECT}\n~~~",
        f"Here you are:\n{OBJECT}\nAnything else?",
        f'<think>Is it {{"answer": "No.", "sure": 1}}? No.</think>{OBJECT}',
        f"<think>a</think>\n<think>b</think>\n{OBJECT}",
        f"<Thinking>hm</Thinking>{OBJECT}",
        f'The opening tag was in the prompt, {{"answer": "No.", "sure": 1}}.</think>\n\n{OBJECT}',
        f"{OBJECT}\n{OBJECT}",
        f'{{"answer": 1}} {OBJECT}',
        '{"answer": "Yes {and} no.", "sure": "0.7", "more": null}',
    ],
)
def test_one_object_is_found_whatever_stands_around_it(text: str) -> None:
    """RUN-25: fences, politeness, thoughts, a repetition of itself."""
    assert read_object(text, Said) == WANTED


def test_tags_inside_an_answer_are_its_words() -> None:
    """RUN-25."""
    text = json.dumps({"answer": "Write <think>…</think> {so}.", "sure": 1})
    assert read_object(text, Said).answer == "Write <think>…</think> {so}."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Fault.EMPTY),
        (" \n", Fault.EMPTY),
        ("<think>All thought, no answer.</think>", Fault.EMPTY),
        ("<think>It ended before", Fault.CUT),
        ('<think>Is it {"answer": "No.", "sure": 1}?', Fault.CUT),
        ("Just text.", Fault.GARBAGE),
        ("{}", Fault.GARBAGE),
        ('{"answer": "", "sure": 0.5}', Fault.GARBAGE),
        ('{"answer": "x", "sure": 7}', Fault.GARBAGE),
        ('{"answer": "x", "sure": NaN}', Fault.GARBAGE),
        ('{"answer": "\\ud800", "sure": 1}', Fault.GARBAGE),
        ('{"answer": "x", "sure": 0.7', Fault.GARBAGE),
        ("[" * 100_000, Fault.GARBAGE),
        ('{"a":' * 30_000, Fault.GARBAGE),
        ('{"sure": ' + "9" * 5_000 + "}", Fault.GARBAGE),
        (OBJECT + '{"answer": "No.", "sure": 0.7}', Fault.TWICE),
        (f"[{OBJECT}, " + '{"answer": "No.", "sure": 0.1}]', Fault.TWICE),
        ("x" * (MAX_REPLY_CHARACTERS + 1), Fault.GARBAGE),
    ],
)
def test_anything_else_is_a_typed_failure(text: str, expected: Fault) -> None:
    """RUN-25: no guess of confidence 0.5."""
    assert fault(text) is expected


@given(st.text(alphabet='{}[]"\\:,<>/think a0.', max_size=200))
def test_no_reply_raises_anything_else(text: str) -> None:
    """RUN-25."""
    with contextlib.suppress(ModelError):
        read_object(text, Said)


@pytest.mark.parametrize("piece", ["{", '{"a":', '{"a":"', "<think>", "</think>", '{"a":[', "{}"])
def test_a_hostile_reply_takes_little_time(piece: str) -> None:
    """RUN-17."""
    text = (piece * MAX_REPLY_CHARACTERS)[:MAX_REPLY_CHARACTERS]
    started = time.process_time()
    fault(text)
    assert time.process_time() - started < 5


def test_the_schema_is_one_that_strict_providers_take() -> None:
    """RUN-25: every object closed and every property required, also one named like a keyword."""
    schema = reply_schema(Nested)
    assert schema["required"] == ["title", "parts"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["title"] == {"type": "string"}
    inner = schema["$defs"]["Said"]
    assert inner["required"] == ["answer", "sure"]
    assert inner["additionalProperties"] is False
    assert inner["properties"]["sure"] == {"maximum": 1, "minimum": 0, "type": "number"}
