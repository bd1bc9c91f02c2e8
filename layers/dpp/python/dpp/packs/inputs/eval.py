"""Inputs of the eval pack (RUN-28)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from dpp.packs.inputs.model import PackInputs, PricedInputs, check_distinct
from dpp.packs.prices import eval_cost_usd_micros

MAX_EVAL_ITEMS = 2_000
MAX_EVAL_TEXT_CHARACTERS = 20_000


def _text_within_bounds(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > MAX_EVAL_TEXT_CHARACTERS:
        raise ValueError(f"a text has at most {MAX_EVAL_TEXT_CHARACTERS} characters")
    return value


ItemId = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,64}$", max_length=64)]
EvalValue = Annotated[JsonValue, AfterValidator(_text_within_bounds)]
Tolerance = Annotated[str, Field(pattern=r"^[0-9]{1,18}(\.[0-9]{1,18})?$", max_length=37)]


class EvalPrediction(PackInputs):
    """A system's answer for the item `id`."""

    id: ItemId
    value: EvalValue = Field(repr=False, description="Any JSON; strings have at most 20,000 characters.")


class EvalReference(PackInputs):
    """The expected answer; of several right answers, the best match counts."""

    id: ItemId
    value: EvalValue = Field(repr=False, description="Any JSON; strings have at most 20,000 characters.")
    alternatives: list[EvalValue] = Field(default=[], max_length=7, repr=False, description="Other right answers.")


MetricType = Literal["exact_match", "token_f1", "rouge_l", "numeric", "json_match"]
_METRICS_WITH_OPTION: Mapping[str, tuple[MetricType, ...]] = MappingProxyType(
    {
        "normalize": ("exact_match",),
        "hangul_unit": ("token_f1", "rouge_l"),
        "absolute_tolerance": ("numeric",),
        "relative_tolerance": ("numeric",),
        "partial": ("json_match",),
    }
)


class EvalMetric(PackInputs):
    """One way to score an item from 0 to 1."""

    # One model and not a union by type, whose faults would be reported at places that the client's JSON lacks.
    type: MetricType
    label: str | None = Field(
        default=None,
        pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$",
        description="What the result calls it; its type by default.",
    )
    threshold: float | None = Field(default=None, ge=0, le=1, description="The least mean that passes.")
    normalize: bool = Field(default=True, description="Of exact_match: compare without case, punctuation and articles.")
    hangul_unit: Literal["syllable", "word"] = Field(
        default="syllable",
        description="Of token_f1 and rouge_l: whether a token of Korean is a syllable or what blanks separate.",
    )
    absolute_tolerance: Tolerance = Field(default="0", description="Of numeric; the larger tolerance counts.")
    relative_tolerance: Tolerance = Field(default="0", description="Of numeric: a share of the reference.")
    partial: bool = Field(
        default=False, description="Of json_match: score the leaves that agree instead of all or nothing."
    )

    @model_validator(mode="after")
    def _options_are_of_the_type(self) -> Self:
        for option, types in _METRICS_WITH_OPTION.items():
            if option in self.model_fields_set and self.type not in types:
                raise ValueError(f"{option} is an option of {' and '.join(types)} only")
        return self

    @property
    def name(self) -> str:
        """The metric's name in the result."""
        return self.label or self.type


class Bootstrap(PackInputs):
    """Settings of the bootstrap intervals around the means."""

    seed: int = Field(default=0, ge=0, le=2**53 - 1, description="The same seed gives the same intervals.")
    resamples: int = Field(default=1_000, ge=100, le=10_000)
    confidence_percent: int = Field(default=95, ge=50, le=99)


class EvalInputs(PricedInputs):
    """Inputs of an eval run: predictions, the references they are held against, and how (RUN-28)."""

    predictions: list[EvalPrediction] = Field(min_length=1, max_length=MAX_EVAL_ITEMS, repr=False)
    references: list[EvalReference] = Field(min_length=1, max_length=MAX_EVAL_ITEMS, repr=False)
    metrics: list[EvalMetric] = Field(min_length=1, max_length=6)
    bootstrap: Bootstrap = Bootstrap()

    @model_validator(mode="after")
    def _nothing_is_named_twice(self) -> Self:
        check_distinct([one.id for one in self.predictions], "the ids of predictions")
        check_distinct([one.id for one in self.references], "the ids of references")
        check_distinct([one.name for one in self.metrics], "the labels of metrics")
        return self

    def least_cost_usd_micros(self) -> int:
        """The price without intervals, which are drawn only for what can be compared."""
        return eval_cost_usd_micros(scores=len(self.references) * len(self.metrics), draws=0)
