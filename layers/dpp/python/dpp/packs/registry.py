"""The packs this deployment has and the model of each one's inputs (RUN-3, RUN-25 … RUN-28).

The API's cold start imports this module, so it imports nothing but pydantic: no pack, no HTTP, no parser.
"""

from collections.abc import Mapping
from types import MappingProxyType

from dpp.packs.contract import PackType
from dpp.packs.inputs.compliance import ComplianceInputs
from dpp.packs.inputs.decision import DecisionInputs
from dpp.packs.inputs.eval import EvalInputs
from dpp.packs.inputs.model import PricedInputs
from dpp.packs.inputs.ocr import OcrInputs
from dpp.packs.inputs.url import UrlInputs

INPUT_MODELS: Mapping[PackType, type[PricedInputs]] = MappingProxyType(
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
