"""Inputs of the url pack (RUN-26)."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpp.packs.inputs.model import PricedInputs
from dpp.packs.prices import url_cost_usd_micros

Url = Annotated[str, Field(min_length=1, max_length=2_048)]


class UrlInputs(PricedInputs):
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
    robots: Literal["ignore", "respect"] = Field(
        default="ignore", description="`respect`: fetch only what each host's robots.txt allows (RFC 9309)."
    )

    @model_validator(mode="after")
    def _switches_agree(self) -> Self:
        if self.allow_http and self.allow_https_only and "allow_https_only" in self.model_fields_set:
            raise ValueError("allow_http and allow_https_only contradict each other")
        return self

    @property
    def plain_http_allowed(self) -> bool:
        """Return whether `http://` may be fetched, asked for by either of the two switches."""
        return self.allow_http or not self.allow_https_only

    def least_cost_usd_micros(self) -> int:
        """The price of a run in which no URL has a result."""
        return url_cost_usd_micros(fetched_urls=0, body_bytes=0)
