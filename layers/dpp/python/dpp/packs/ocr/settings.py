"""What the ocr pack reads from its environment."""

from pydantic import Field

from dpp.platform.config import Settings


class OcrSettings(Settings):
    """Where Tesseract's trained data is; by default in the layer, which Python's path leads to."""

    trained_data: str | None = Field(
        description="Where Tesseract's trained data is; without it in the layer.",
        default=None,
        alias="DPP_TESSDATA_DIR",
    )
