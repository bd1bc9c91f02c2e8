"""Runs a request's pack inside the pack process, after validating its inputs once more (D6)."""

import importlib
import importlib.util
import os
from collections.abc import Mapping

from pydantic import BaseModel, ValidationError

from dpp.packs.compliance import pack as compliance_pack
from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult
from dpp.packs.decision import pack as decision_pack
from dpp.packs.environment import BEDROCK_MODEL_VARIABLE
from dpp.packs.evaluation import pack as evaluation_pack
from dpp.packs.evaluation.judge import judge_of
from dpp.packs.inputs.compliance import ComplianceInputs
from dpp.packs.inputs.decision import DecisionInputs
from dpp.packs.inputs.eval import EvalInputs
from dpp.packs.inputs.ocr import OcrInputs
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.ocr.settings import OcrSettings
from dpp.packs.registry import INPUT_MODELS
from dpp.packs.url import pack as url_pack
from dpp.platform.config import ConfigurationError, ModelSettings


def warm() -> None:
    """Do now, outside of any timebox, what the packs of this deployment will need."""
    for model in INPUT_MODELS.values():
        model.model_rebuild()
    url_pack.default_fetcher()
    if importlib.util.find_spec("tesserocr"):  # in the layer that only the worker has
        importlib.import_module("dpp.packs.ocr.pack")
    if os.environ.get(BEDROCK_MODEL_VARIABLE):
        importlib.import_module("boto3")


def execute(request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    """Run one pack. `environ` holds what the job brought along for it."""
    model = INPUT_MODELS.get(request.pack_type)
    if model is None:
        return PackFailure(reason_code=PackReason.PACK_NOT_AVAILABLE)
    try:
        inputs = model.model_validate(request.inputs)
    except ValidationError:
        return PackFailure(reason_code=PackReason.PACK_INPUTS_INVALID)
    try:
        return _run(inputs, request, environ)
    except ConfigurationError as error:
        return PackFailure(reason_code=PackReason.PACK_FAILED, detail=str(error)[:200])


def _run(inputs: BaseModel, request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    match inputs:
        case DecisionInputs():
            return decision_pack.run(inputs, request, ModelSettings.load(environ))
        case UrlInputs():
            return url_pack.run(inputs, request)
        case ComplianceInputs():
            return compliance_pack.run(inputs, compliance_pack.model_of(inputs, request, ModelSettings.load(environ)))
        case OcrInputs():
            from dpp.packs.ocr import pack as ocr_pack  # noqa: PLC0415 - see `warm`

            return ocr_pack.run(inputs, request, OcrSettings.load(environ))
        case EvalInputs():
            return _evaluate(inputs, request, environ)
        case _:
            return PackFailure(reason_code=PackReason.PACK_NOT_AVAILABLE)


def _evaluate(inputs: EvalInputs, request: PackRequest, environ: Mapping[str, str]) -> PackResult:
    if not inputs.asks_judge:
        return evaluation_pack.run(inputs)
    judge = judge_of(inputs, request, ModelSettings.load(environ))
    if judge is None:
        detail = "no language model is configured for the metric judge"
        return PackFailure(reason_code=PackReason.PACK_NOT_AVAILABLE, detail=detail)
    return evaluation_pack.run(inputs, judge)
