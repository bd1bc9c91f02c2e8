"""The packs this deployment has and the schema of each one's inputs (RUN-3, RUN-25, RUN-26).

The API's cold start imports this module, so it imports nothing but pydantic: no pack, no HTTP, no parser.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dpp.packs.contract import PackType


class _Inputs(BaseModel):
    # Strict, so that "10" is not taken for 10: the payload hash (RUN-5) is over what the client wrote.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


class DecisionInputs(_Inputs):
    """Inputs of a decision run: a question, the text to answer from, and how long an answer (RUN-25)."""

    question: str = Field(
        min_length=1, max_length=4_000, pattern=r"\S", description="What to decide or answer.", repr=False
    )
    context: str | None = Field(
        default=None, max_length=200_000, description="The text to answer from.", repr=False
    )
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
        """Whether `http://` may be fetched, asked for by either of the two switches."""
        return self.allow_http or not self.allow_https_only


INPUT_MODELS: Mapping[PackType, type[BaseModel]] = MappingProxyType(
    {PackType.DECISION: DecisionInputs, PackType.URL: UrlInputs}
)


def available_packs() -> tuple[PackType, ...]:
    """The packs that can be run here; the API refuses any other with "not available in this deployment"."""
    return tuple(INPUT_MODELS)
