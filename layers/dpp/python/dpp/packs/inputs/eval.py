"""Inputs of the eval pack (RUN-28)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, model_validator

from dpp.packs.inputs.model import PackInputs, PricedInputs, check_distinct
from dpp.packs.patterns import compile_pattern
from dpp.packs.prices import eval_cost_usd_micros

MAX_EVAL_ITEMS = 2_000
MAX_EVAL_TEXT_CHARACTERS = 20_000


def _text_within_bounds(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > MAX_EVAL_TEXT_CHARACTERS:
        raise ValueError(f"a text has at most {MAX_EVAL_TEXT_CHARACTERS} characters")
    return value


def _compiles(pattern: str) -> str:
    compile_pattern(pattern, case_sensitive=True)
    return pattern


ItemId = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,64}$", max_length=64)]
EvalValue = Annotated[JsonValue, AfterValidator(_text_within_bounds)]
Pattern = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_compiles)]
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


MetricType = Literal["exact_match", "token_f1", "rouge_l", "numeric", "json_match", "regex", "judge"]
_METRICS_WITH_OPTION: Mapping[str, tuple[MetricType, ...]] = MappingProxyType(
    {
        "normalize": ("exact_match",),
        "hangul_unit": ("token_f1", "rouge_l"),
        "absolute_tolerance": ("numeric",),
        "relative_tolerance": ("numeric",),
        "partial": ("json_match",),
        "pattern": ("regex",),
        "criterion": ("judge",),
    }
)
_REQUIRED_OPTION: Mapping[MetricType, str] = MappingProxyType({"regex": "pattern", "judge": "criterion"})


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
    pattern: Pattern | None = Field(
        default=None, repr=False, description="Of regex: what the prediction must contain; RE2 syntax."
    )
    criterion: str | None = Field(
        default=None,
        min_length=1,
        max_length=2_000,
        pattern=r"\S",
        repr=False,
        description="Of judge: what makes a prediction good, in words.",
    )

    @model_validator(mode="after")
    def _options_are_of_the_type(self) -> Self:
        for option, types in _METRICS_WITH_OPTION.items():
            if option in self.model_fields_set and self.type not in types:
                raise ValueError(f"{option} is an option of {' and '.join(types)} only")
        required = _REQUIRED_OPTION.get(self.type)
        if required is not None and getattr(self, required) is None:
            raise ValueError(f"{self.type} needs {required}")
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


class EvalBaselineItem(PackInputs):
    """The scores of one item in an earlier run, null where it has none."""

    id: ItemId
    scores: list[Annotated[float, Field(ge=0, le=1)] | None] = Field(min_length=1, max_length=6)
    notes: list[str] = Field(default=[], max_length=6, description="Accepted as the envelope has it, and not used.")


class EvalBaseline(PackInputs):
    """The scores of an earlier run, from its envelope: the names in `data.metrics`, and `data.items`."""

    metrics: list[str] = Field(min_length=1, max_length=6)
    items: list[EvalBaselineItem] = Field(min_length=1, max_length=MAX_EVAL_ITEMS)

    @model_validator(mode="after")
    def _items_have_a_score_of_each_metric(self) -> Self:
        check_distinct(self.metrics, "the metrics of the baseline")
        check_distinct([one.id for one in self.items], "the ids of the baseline's items")
        if any(len(one.scores) != len(self.metrics) for one in self.items):
            raise ValueError("each item of the baseline has one score for each of its metrics")
        return self


class EvalInputs(PricedInputs):
    """Inputs of an eval run: predictions, the references they are held against, and how (RUN-28)."""

    predictions: list[EvalPrediction] = Field(min_length=1, max_length=MAX_EVAL_ITEMS, repr=False)
    references: list[EvalReference] = Field(min_length=1, max_length=MAX_EVAL_ITEMS, repr=False)
    metrics: list[EvalMetric] = Field(min_length=1, max_length=6)
    bootstrap: Bootstrap = Bootstrap()
    baseline: EvalBaseline | None = Field(
        default=None, repr=False, description="An earlier run's scores to compare this run's with."
    )
    baseline_run_id: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
        description="The earlier run, an eval run of yours, in place of its scores.",
    )

    @model_validator(mode="after")
    def _nothing_is_named_twice(self) -> Self:
        check_distinct([one.id for one in self.predictions], "the ids of predictions")
        check_distinct([one.id for one in self.references], "the ids of references")
        check_distinct([one.name for one in self.metrics], "the labels of metrics")
        if self.baseline is not None and self.baseline_run_id is not None:
            raise ValueError("give baseline or baseline_run_id, not both")
        if self.baseline is not None and not {one.name for one in self.metrics} & set(self.baseline.metrics):
            raise ValueError("the baseline has none of the metrics")
        return self

    @property
    def asks_judge(self) -> bool:
        """True if a language model scores a metric."""
        return any(one.type == "judge" for one in self.metrics)

    def most_cost_usd_micros(self) -> int:
        """The price if everything can be compared, without a model's tokens."""
        scores = len(self.references) * len(self.metrics)
        draws = scores * self.bootstrap.resamples * (1 if self.baseline is None and self.baseline_run_id is None else 2)
        return eval_cost_usd_micros(scores=scores, draws=draws)

    def least_cost_usd_micros(self) -> int:
        """The price without intervals, which are drawn only for what can be compared."""
        return eval_cost_usd_micros(scores=len(self.references) * len(self.metrics), draws=0)
