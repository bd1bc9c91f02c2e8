"""Environment settings of the ocr pack."""

from dpp.platform.config import Settings, variable


class OcrSettings(Settings):
    """Folder of Tesseract's trained data; by default the one in the ocr layer."""

    trained_data: str | None = variable(
        "DPP_TESSDATA_DIR", "Where Tesseract's trained data is; without it in the layer.", None
    )
