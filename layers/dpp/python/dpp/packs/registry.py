"""The packs this deployment has and the schema of each one's inputs (RUN-3, RUN-25 … RUN-28).

The API's cold start imports this module, so it imports nothing but pydantic: no pack, no HTTP, no parser.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, model_validator

from dpp.packs.contract import PackType


class _Inputs(BaseModel):
    # Strict, so that "10" is not taken for 10: the payload hash (RUN-5) is over what the client wrote.
    # Built when first used: a cold start would else build the models of every pack for a request that has one.
    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


class DecisionInputs(_Inputs):
    """Inputs of a decision run: a question, the text to answer from, and how long an answer (RUN-25)."""

    question: str = Field(
        min_length=1, max_length=4_000, pattern=r"\S", description="What to decide or answer.", repr=False
    )
    context: str | None = Field(default=None, max_length=200_000, description="The text to answer from.", repr=False)
    mode: Literal["brief", "full"] = Field(
        default="brief", description="`brief`: one short answer; `full`: the answer with its evidence."
    )


Url = Annotated[str, Field(min_length=1, max_length=2_048)]


class UrlInputs(_Inputs):
    """Inputs of a url run (RUN-26). A malformed URL is no 422: it ends in the discard log, alone."""

    urls: list[Url] = Field(min_length=1, max_length=30, description="What to fetch, in order.", repr=False)
    max_urls: int = Field(default=30, ge=1, le=30, description="Fetch at most the first so many.")
    fetch_timeout_sec: int = Field(
        default=10, ge=1, le=30, description="For one URL: DNS, redirects and body together."
    )
    max_redirect_hops: int = Field(default=5, ge=0, le=5)
    # A client may say it but not unsay it: `false` would turn the platform into an open door to its own
    # network, so the schema refuses it instead of ignoring what the client asked for.
    block_private_ip: Literal[True] = Field(default=True, description="Always on; `false` is refused.")
    allow_https_only: bool = Field(default=True, description="`false` allows plain http too.")
    allow_http: bool = Field(default=False, description="`true` is another way to allow plain http.")

    @model_validator(mode="after")
    def _switches_agree(self) -> Self:
        if self.allow_http and self.allow_https_only and "allow_https_only" in self.model_fields_set:
            raise ValueError("allow_http and allow_https_only contradict each other")
        return self

    @property
    def plain_http_allowed(self) -> bool:
        """Return whether `http://` may be fetched, asked for by either of the two switches."""
        return self.allow_http or not self.allow_https_only


MAX_EVAL_ITEMS = 2_000
MAX_EVAL_TEXT_CHARACTERS = 20_000


def _distinct(names: Sequence[str], what: str) -> None:
    # The message names no value: ids are the client's words.
    if len(set(names)) != len(names):
        raise ValueError(f"{what} must be distinct")


def _text_within_bounds(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and len(value) > MAX_EVAL_TEXT_CHARACTERS:
        raise ValueError(f"a text has at most {MAX_EVAL_TEXT_CHARACTERS} characters")
    return value


ItemId = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]{1,64}$", max_length=64)]
EvalValue = Annotated[JsonValue, AfterValidator(_text_within_bounds)]
Tolerance = Annotated[str, Field(pattern=r"^[0-9]{1,18}(\.[0-9]{1,18})?$", max_length=37)]


class EvalPrediction(_Inputs):
    """A system's answer for the item `id`."""

    id: ItemId
    value: EvalValue = Field(repr=False, description="Any JSON; strings have at most 20,000 characters.")


class EvalReference(_Inputs):
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


class EvalMetric(_Inputs):
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


class Bootstrap(_Inputs):
    """Settings of the bootstrap intervals around the means."""

    seed: int = Field(default=0, ge=0, le=2**53 - 1, description="The same seed gives the same intervals.")
    resamples: int = Field(default=1_000, ge=100, le=10_000)
    confidence_percent: int = Field(default=95, ge=50, le=99)


class EvalInputs(_Inputs):
    """Inputs of an eval run: predictions, the references they are held against, and how (RUN-28)."""

    predictions: list[EvalPrediction] = Field(min_length=1, max_length=MAX_EVAL_ITEMS, repr=False)
    references: list[EvalReference] = Field(min_length=1, max_length=MAX_EVAL_ITEMS, repr=False)
    metrics: list[EvalMetric] = Field(min_length=1, max_length=6)
    bootstrap: Bootstrap = Bootstrap()

    @model_validator(mode="after")
    def _nothing_is_named_twice(self) -> Self:
        _distinct([one.id for one in self.predictions], "the ids of predictions")
        _distinct([one.id for one in self.references], "the ids of references")
        _distinct([one.name for one in self.metrics], "the labels of metrics")
        return self


Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = ("low", "medium", "high", "critical")
"""From the least to the most severe."""

# Ids come back in the result, where no personal data may stand, so they leave little room for it.
PlainId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", max_length=64)]
Phrase = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
RuleSet = Literal["personal_data_kr", "personal_data_international"]


class ComplianceDocument(_Inputs):
    """A text to check."""

    id: PlainId
    text: str = Field(max_length=200_000, repr=False)


class Clause(_Inputs):
    """A clause that a document must contain, or must not contain, in one of several wordings."""

    id: PlainId
    any_of: list[Phrase] = Field(
        min_length=1, max_length=10, repr=False, description="Compared without case, width and line breaks."
    )
    severity: Severity = "high"


class CompliancePattern(_Inputs):
    """A regular expression that a document must not match."""

    id: PlainId
    pattern: str = Field(
        min_length=1, max_length=500, repr=False, description="RE2 syntax; no look-around, no back-references."
    )
    case_sensitive: bool = True
    severity: Severity = "medium"


class ComplianceInputs(_Inputs):
    """Inputs of a compliance run: documents, the rules they are checked against, and what fails (RUN-28)."""

    documents: list[ComplianceDocument] = Field(min_length=1, max_length=50, repr=False)
    rule_sets: list[RuleSet] = Field(default=["personal_data_kr", "personal_data_international"], max_length=2)
    required_clauses: list[Clause] = Field(default=[], max_length=50)
    forbidden_clauses: list[Clause] = Field(default=[], max_length=50)
    patterns: list[CompliancePattern] = Field(default=[], max_length=20)
    fail_at: Severity = Field(default="high", description="A finding as severe as this fails its document.")
    review_at: Severity = Field(default="low", description="One as severe as this asks for a human's look.")
    max_findings: int = Field(default=500, ge=1, le=1_000, description="The most severe are kept.")

    @model_validator(mode="after")
    def _rules_are_there_and_named_once(self) -> Self:
        clauses = [*self.required_clauses, *self.forbidden_clauses]
        if not (self.rule_sets or clauses or self.patterns):
            raise ValueError("there is no rule to check: give a rule set, a clause or a pattern")
        _distinct(self.rule_sets, "rule sets")
        _distinct([one.id for one in self.documents], "the ids of documents")
        ids = [*(one.id for one in clauses), *(one.id for one in self.patterns)]
        _distinct(ids, "the ids of clauses and patterns")
        return self


INPUT_OBJECT_PREFIX = "inputs/"
"""Prefix of clients' objects in the bucket: `inputs/{tenant_id}/…`."""
_TENANT = "tenant_id"


def tenant_context(tenant_id: str) -> dict[str, str]:
    """Return the validation context by which inputs with another tenant's objects are rejected."""
    return {_TENANT: tenant_id}


class OcrImage(_Inputs):
    """A picture or a document with pages: an object of the deployment's bucket, or its bytes."""

    # One model and not a union by kind, as for EvalMetric.
    kind: Literal["s3", "inline"]
    bucket: str | None = Field(
        default=None, min_length=3, max_length=63, description="Of s3: the deployment's own, or left out."
    )
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=1_024,
        pattern=r"^inputs/[^/]+/[^/]",
        repr=False,
        description="Of s3: `inputs/{your tenant id}/…`.",
    )
    data: str | None = Field(
        default=None,
        min_length=4,
        max_length=1_000_000,
        pattern=r"^[A-Za-z0-9+/]+={0,2}$",
        repr=False,
        description="Of inline: the file in base64.",
    )

    @model_validator(mode="after")
    def _fields_are_of_the_kind(self, info: ValidationInfo) -> Self:
        if self.kind == "s3" and (self.key is None or self.data is not None):
            raise ValueError("an s3 image has a key and no data")
        if self.kind == "inline" and (self.data is None or self.key is not None or self.bucket is not None):
            raise ValueError("an inline image has data, no key and no bucket")
        if self.key is not None:
            _check_key(self.key, (info.context or {}).get(_TENANT))
        return self


def _check_key(key: str, tenant_id: str | None) -> None:
    # S3 takes any key, but a URL's dots and empty parts are resolved by what is on the way to it.
    parts = key.split("/")
    if not key.isprintable() or "\\" in key or {"", ".", ".."} & set(parts):
        raise ValueError("a key has no empty part, no `.` or `..`, no backslash and no control character")
    if len(parts) < 3 or not key.startswith(f"{INPUT_OBJECT_PREFIX}{tenant_id or parts[1]}/"):
        raise ValueError("a key is inputs/{your tenant id}/…")


class OcrArtifacts(_Inputs):
    """Optional artifacts beside the texts."""

    include_markdown: bool = Field(default=False, description="All pages as one Markdown text.")
    include_docx: bool = Field(default=False, description="All pages as one Word document, in base64.")


class OcrInputs(_Inputs):
    """Inputs of an ocr run: images, what kind of page they are, and what is wanted of them (RUN-27)."""

    images: list[OcrImage] = Field(min_length=1, max_length=50, repr=False, description="Read in this order.")
    ocr_profile: Literal["P1", "P2A", "P2B", "P3"] = Field(
        default="P1",
        description="P1: documents; P2A: worn or photographed ones; P2B: forms and tables; P3: scattered text.",
    )
    language: Literal["kor+eng", "eng+kor", "kor", "eng"] = Field(
        default="kor+eng", description="Of two, the first is tried first."
    )
    max_pages: int = Field(default=50, ge=1, le=50, description="Of all images together.")
    artifacts: OcrArtifacts = OcrArtifacts()


INPUT_MODELS: Mapping[PackType, type[BaseModel]] = MappingProxyType(
    {
        PackType.DECISION: DecisionInputs,
        PackType.URL: UrlInputs,
        PackType.OCR: OcrInputs,
        PackType.COMPLIANCE: ComplianceInputs,
        PackType.EVAL: EvalInputs,
    }
)


def available_packs() -> tuple[PackType, ...]:
    """The packs that can be run here; the API refuses any other with "not available in this deployment"."""
    return tuple(INPUT_MODELS)
