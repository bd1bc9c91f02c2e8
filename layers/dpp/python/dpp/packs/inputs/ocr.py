"""Inputs of the ocr pack (RUN-27)."""

from typing import Literal, Self

from pydantic import Field, ValidationInfo, model_validator

from dpp.packs.inputs.model import PackInputs, PricedInputs
from dpp.packs.prices import ocr_cost_usd_micros

INPUT_OBJECT_PREFIX = "inputs/"
"""Prefix of clients' objects in the bucket: `inputs/{tenant_id}/…`."""
_TENANT, _BUCKET = "tenant_id", "bucket"


def object_context(tenant_id: str, bucket: str) -> dict[str, str]:
    """Return the validation context that rejects objects of another tenant or bucket."""
    return {_TENANT: tenant_id, _BUCKET: bucket}


class OcrImage(PackInputs):
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
        context = info.context or {}
        if self.bucket is not None and self.bucket != context.get(_BUCKET, self.bucket):
            raise ValueError("the bucket is not this deployment's; leave it out")
        if self.key is not None:
            _check_key(self.key, context.get(_TENANT))
        return self


def _check_key(key: str, tenant_id: str | None) -> None:
    # S3 takes any key, but a URL's dots and empty parts are resolved by what is on the way to it.
    parts = key.split("/")
    if not key.isprintable() or "\\" in key or {"", ".", ".."} & set(parts):
        raise ValueError("a key has no empty part, no `.` or `..`, no backslash and no control character")
    if len(parts) < 3 or not key.startswith(f"{INPUT_OBJECT_PREFIX}{tenant_id or parts[1]}/"):
        raise ValueError("a key is inputs/{your tenant id}/…")


class OcrArtifacts(PackInputs):
    """Optional artifacts beside the texts."""

    include_markdown: bool = Field(default=False, description="All pages as one Markdown text.")
    include_docx: bool = Field(default=False, description="All pages as one Word document, in base64.")


class OcrInputs(PricedInputs):
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

    def least_cost_usd_micros(self) -> int:
        """The price of one small page."""
        return ocr_cost_usd_micros(pages=1, pixels=1)
