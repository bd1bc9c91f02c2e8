"""Finds the jobs that ask a language model: only these get its key, and run where it can be reached (RUN-25, D6)."""

from collections.abc import Mapping
from typing import assert_never

from dpp.packs.contract import PackType


def needs_model(pack_type: PackType, inputs: Mapping[str, object]) -> bool:
    """True if the job asks the configured model. `inputs` need not be valid: an invalid job asks nothing."""
    match pack_type:
        case PackType.DECISION:
            return True
        case PackType.EVAL:
            metrics = inputs.get("metrics")
            return isinstance(metrics, list) and any(
                isinstance(metric, dict) and metric.get("type") == "judge" for metric in metrics
            )
        case PackType.COMPLIANCE:
            return inputs.get("policy") is not None
        case PackType.OCR | PackType.URL:
            return False
    assert_never(pack_type)
