"""The compliance pack: documents checked against rules, each finding with its place and never its value (RUN-28)."""

from collections import Counter
from collections.abc import Sequence

from pydantic import JsonValue

from dpp.packs.compliance import client_rules, personal_data
from dpp.packs.compliance.client_rules import Document, Found, RuleRefusedError
from dpp.packs.compliance.findings import Finding, verdict
from dpp.packs.compliance.folding import fold, fold_phrases
from dpp.packs.contract import PackFailure, PackReason, PackResult, PackSuccess
from dpp.packs.inputs.compliance import SEVERITIES, ComplianceInputs
from dpp.packs.prices import compliance_cost_usd_micros


def run(inputs: ComplianceInputs) -> PackResult:
    """Check every document against every rule. The result depends only on the inputs."""
    documents = [
        Document(number, one.text, fold(one.text), fold_phrases(one.text))
        for number, one in enumerate(inputs.documents)
    ]
    try:
        by_client = _by_client_rules(inputs, documents)
    except RuleRefusedError as error:
        return PackFailure(reason_code=PackReason.PACK_INPUTS_INVALID, detail=str(error))
    findings = [
        *(one for found in by_client for one in found.findings),
        *(
            finding
            for one in documents
            for finding in personal_data.find(one.number, one.text, one.folded, inputs.rule_sets)
        ),
    ]
    incomplete = [found.rule for found in by_client if not found.complete]
    return PackSuccess(
        data=_data(inputs, findings, incomplete),
        reliability_score=_reliability(inputs, incomplete),
        cost_usd_micros=compliance_cost_usd_micros(
            characters=sum(len(one.text) for one in inputs.documents), patterns=len(inputs.patterns)
        ),
    )


def _reliability(inputs: ComplianceInputs, incomplete: Sequence[str]) -> float:
    """The share of the rules (a clause, a pattern or a rule set each) that were applied to the last character.

    Rules are exact, so nothing else is uncertain. `max_findings` only shortens the list: what it leaves out is
    in counts and verdicts.
    """
    rules = sum(
        len(kind) for kind in (inputs.rule_sets, inputs.required_clauses, inputs.forbidden_clauses, inputs.patterns)
    )
    return (rules - len(incomplete)) / rules  # the inputs hold at least one


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


def _data(inputs: ComplianceInputs, findings: Sequence[Finding], incomplete: Sequence[str]) -> dict[str, JsonValue]:
    kept = sorted(findings, key=lambda one: (-one.rank, one.place))[: inputs.max_findings]
    severities = Counter(one.severity for one in findings)
    return {
        "verdict": verdict(findings, fail_at=inputs.fail_at, review_at=inputs.review_at),
        "fail_at": inputs.fail_at,
        "review_at": inputs.review_at,
        "counts": {severity: severities[severity] for severity in SEVERITIES},
        "documents": _documents(inputs, findings),
        "findings": [_shown(inputs, one) for one in sorted(kept, key=lambda one: one.place)],
        "truncated": bool(incomplete) or len(kept) < len(findings),
        "omitted_findings": len(findings) - len(kept),
        "incomplete_rules": list(incomplete),
    }


def _documents(inputs: ComplianceInputs, findings: Sequence[Finding]) -> list[JsonValue]:
    by_document: list[list[Finding]] = [[] for _ in inputs.documents]
    for finding in findings:
        by_document[finding.document].append(finding)
    return [
        {
            "id": document.id,
            "verdict": verdict(found, fail_at=inputs.fail_at, review_at=inputs.review_at),
            "findings": len(found),
        }
        for document, found in zip(inputs.documents, by_document, strict=True)
    ]


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
