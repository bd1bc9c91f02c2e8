"""Environment settings of the ocr pack."""

from pydantic import Field

from dpp.platform.config import Settings


class OcrSettings(Settings):
    """Folder of Tesseract's trained data; by default the one in the ocr layer."""

    trained_data: str | None = Field(
        description="Where Tesseract's trained data is; without it in the layer.",
        default=None,
        alias="DPP_TESSDATA_DIR",
    )
