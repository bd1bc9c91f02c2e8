"""A policy judged: by the model where there is one, else by the presets' wordings (RUN-28)."""

from collections.abc import Sequence

from pydantic import JsonValue

from dpp.packs.compliance.client_rules import Document
from dpp.packs.compliance.policy import judging, presets
from dpp.packs.compliance.policy.verdicts import PolicyFinding, RuleInWords
from dpp.packs.inputs.compliance import Policy
from dpp.packs.models.configured import BoundedModel


def judge(policy: Policy, documents: Sequence[Document], model: BoundedModel | None) -> list[PolicyFinding]:
    """A finding for each rule: the presets' in their order, then the client's."""
    in_words = [RuleInWords(one.id, one.severity, one.words) for one in policy.rules]
    if model is None:
        by_wordings = [one for preset in policy.presets for one in presets.judge(preset, documents)]
        return [*by_wordings, *map(_without_model, in_words)]
    of_presets = [rule for preset in policy.presets for rule in presets.in_words(preset)]
    judged = judging.judge([*of_presets, *in_words], documents, model)
    if all(one.verdict != "unclear" for one in judged[: len(of_presets)]):
        return judged
    # What the model left open, a wording may still decide.
    by_wordings = [one for preset in policy.presets for one in presets.judge(preset, documents)]
    return [*map(_second_opinion, judged, by_wordings), *judged[len(of_presets) :]]


def _without_model(rule: RuleInWords) -> PolicyFinding:
    reason = "This deployment has no language model, and only a model can judge a rule in words."
    return PolicyFinding(rule, "unclear", reason, 0.0, None)


def _second_opinion(judged: PolicyFinding, by_wordings: PolicyFinding) -> PolicyFinding:
    return by_wordings if judged.verdict == "unclear" and by_wordings.passage is not None else judged


def reliability(findings: Sequence[PolicyFinding]) -> float:
    """The sum of the confidence of the findings that have a verdict."""
    return sum(one.confidence for one in findings if one.verdict != "unclear")


def shown(findings: Sequence[PolicyFinding], names: Sequence[str], model: BoundedModel | None) -> dict[str, JsonValue]:
    """The part of the result that is about the policy; `names` are the documents' ids."""
    return {
        "engine": presets.ENGINE if model is None else model.model.engine,
        "model": None if model is None else model.model.model,
        "counts": {
            verdict: sum(one.verdict == verdict for one in findings) for verdict in ("met", "violated", "unclear")
        },
        "findings": [_shown(one, names) for one in findings],
    }


def _shown(finding: PolicyFinding, names: Sequence[str]) -> JsonValue:
    passage = finding.passage
    return {
        "rule": finding.rule.id,
        "preset": finding.rule.preset,
        "verdict": finding.verdict,
        "severity": finding.rule.severity,
        "confidence": finding.confidence,
        "engine": finding.engine,
        "reason": finding.reason,
        "document": names[passage.document] if passage else None,
        "start": passage.start if passage else None,
        "end": passage.end if passage else None,
        "quote": passage.quote if passage else None,
    }
