"""The compliance pack: documents checked against rules and a policy, each finding with its place (RUN-28).

What is found as personal data or by a client's pattern is never shown. Only a policy's findings quote the text.
"""

from collections import Counter
from collections.abc import Sequence

from pydantic import JsonValue

from dpp.packs.compliance import client_rules
from dpp.packs.compliance.client_rules import Document, Found, RuleRefusedError
from dpp.packs.compliance.findings import Finding, verdict
from dpp.packs.compliance.personal_data import Search
from dpp.packs.compliance.policy import policy as policies
from dpp.packs.compliance.policy.verdicts import PolicyFinding
from dpp.packs.contract import PackFailure, PackReason, PackRequest, PackResult, PackSuccess
from dpp.packs.folding import fold, fold_phrases
from dpp.packs.inputs.compliance import SEVERITIES, ComplianceInputs, Severity
from dpp.packs.models.configured import BoundedModel, bounded_model
from dpp.packs.timebox import deadline_of
from dpp.platform.config import ModelSettings

_RESERVE_SHARE = 0.2
_RESERVE_SECONDS = 2.0
"""Reserved from the timebox for the search and for handing over the result."""


def model_of(inputs: ComplianceInputs, request: PackRequest, settings: ModelSettings) -> BoundedModel | None:
    """The configured model with the time and money of this run; None without a policy or a model."""
    if inputs.policy is None:
        return None
    return bounded_model(
        settings,
        request,
        other_cost_usd_micros=inputs.least_cost_usd_micros(),
        deadline=deadline_of(request, reserve_seconds=_RESERVE_SECONDS, reserve_share=_RESERVE_SHARE),
    )


def run(inputs: ComplianceInputs, model: BoundedModel | None = None) -> PackResult:
    """Check every document against every rule. Without a model, the result depends only on the inputs."""
    documents = [
        Document(number, one.text, fold(one.text), fold_phrases(one.text))
        for number, one in enumerate(inputs.documents)
    ]
    try:
        by_client = _by_client_rules(inputs, documents)
    except RuleRefusedError as error:
        return PackFailure(reason_code=PackReason.PACK_INPUTS_INVALID, detail=str(error))
    search = Search(inputs.rule_sets)
    findings = [
        *(one for found in by_client for one in found.findings),
        *(finding for one in documents for finding in search.find(one.number, one.text, one.folded)),
    ]
    incomplete = [*(found.rule for found in by_client if not found.complete), *sorted(search.incomplete)]
    judged = policies.judge(inputs.policy, documents, model) if inputs.policy else []
    data = _data(inputs, findings, incomplete, judged)
    if inputs.policy is not None:
        data["policy"] = policies.shown(judged, [one.id for one in inputs.documents], model)
    tokens = model.budget.spent if model else 0
    return PackSuccess(
        data=data,
        reliability_score=_reliability(inputs, incomplete, judged),
        cost_usd_micros=inputs.cost_usd_micros(tokens=tokens),
        tokens_consumed=tokens,
    )


def _reliability(inputs: ComplianceInputs, incomplete: Sequence[str], judged: Sequence[PolicyFinding]) -> float:
    """The share of the rules that can be relied on.

    A clause, a pattern or a rule set is exact: it counts if it was applied to the last character. A rule of the policy
    counts by its confidence, and not at all if its verdict is unclear. `max_findings` only shortens the list: what it
    leaves out is in counts and verdicts.
    """
    exact = sum(
        len(kind) for kind in (inputs.rule_sets, inputs.required_clauses, inputs.forbidden_clauses, inputs.patterns)
    )
    relied_on = exact - len(incomplete) + policies.reliability(judged)
    return round(relied_on / (exact + len(judged)), 4)  # the inputs hold at least one


def _by_client_rules(inputs: ComplianceInputs, documents: Sequence[Document]) -> list[Found]:
    # All of them are read before any is applied: a fault in the last one costs no search.
    required, forbidden = (
        [client_rules.read_clause(one, f"{name}[{place}]") for place, one in enumerate(clauses)]
        for name, clauses in (
            ("required_clauses", inputs.required_clauses),
            ("forbidden_clauses", inputs.forbidden_clauses),
        )
    )
    patterns = [client_rules.read_pattern(one) for one in inputs.patterns]
    return [
        *(rule.missing(documents) for rule in required),
        *(rule.present(documents) for rule in forbidden),
        *(rule.present(documents) for rule in patterns),
    ]


def _data(
    inputs: ComplianceInputs, findings: Sequence[Finding], incomplete: Sequence[str], judged: Sequence[PolicyFinding]
) -> dict[str, JsonValue]:
    kept = sorted(findings, key=lambda one: (-one.rank, one.place))[: inputs.max_findings]
    violated = [one.rule.severity for one in judged if one.verdict == "violated"]
    severities = [*(one.severity for one in findings), *violated]
    counts = Counter(severities)
    unclear = any(one.verdict == "unclear" for one in judged)
    return {
        "verdict": _verdict(inputs, severities, unclear=unclear),
        "fail_at": inputs.fail_at,
        "review_at": inputs.review_at,
        "counts": {severity: counts[severity] for severity in SEVERITIES},
        "documents": _documents(inputs, findings, judged),
        "findings": [_shown(inputs, one) for one in sorted(kept, key=lambda one: one.place)],
        "truncated": bool(incomplete) or len(kept) < len(findings),
        "omitted_findings": len(findings) - len(kept),
        "incomplete_rules": list(incomplete),
    }


def _documents(
    inputs: ComplianceInputs, findings: Sequence[Finding], judged: Sequence[PolicyFinding]
) -> list[JsonValue]:
    by_document: list[list[Severity]] = [[] for _ in inputs.documents]
    for finding in findings:
        by_document[finding.document].append(finding.severity)
    for one in judged:
        if one.verdict == "violated" and one.passage is not None:
            by_document[one.passage.document].append(one.rule.severity)
    return [
        {"id": document.id, "verdict": _verdict(inputs, severities, unclear=False), "findings": len(severities)}
        for document, severities in zip(inputs.documents, by_document, strict=True)
    ]


def _verdict(inputs: ComplianceInputs, severities: Sequence[Severity], *, unclear: bool) -> JsonValue:
    found = verdict(severities, fail_at=inputs.fail_at, review_at=inputs.review_at)
    return "review" if unclear and found == "pass" else found


def _shown(inputs: ComplianceInputs, finding: Finding) -> JsonValue:
    return {
        "document": inputs.documents[finding.document].id,
        "kind": finding.kind,
        "rule": finding.rule,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "start": finding.start,
        "end": finding.end,
        "excerpt": finding.excerpt,
    }
