"""Each pack's reliability score (RUN-3, RUN-25, RUN-26, RUN-28)."""

import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from pydantic import ValidationError

from dpp.packs.compliance import pack as compliance
from dpp.packs.compliance.client_rules import MAX_MATCHES
from dpp.packs.contract import PackRequest, PackSuccess, PackType
from dpp.packs.decision import pack as decision
from dpp.packs.evaluation import pack as evaluation
from dpp.packs.inputs.compliance import ComplianceInputs
from dpp.packs.inputs.decision import DecisionInputs
from dpp.packs.inputs.eval import EvalInputs
from dpp.packs.inputs.url import UrlInputs
from dpp.packs.url import pack as url
from dpp.platform.config import ModelSettings
from tests.packs.internet import Internet, serve
from tests.packs.loopback import reply


def request(pack_type: PackType, raw: dict[str, Any], timebox_sec: int = 10) -> PackRequest:
    return PackRequest(run_id="run", pack_type=pack_type, inputs=raw, timebox_sec=timebox_sec, max_cost_usd_micros=0)


@pytest.mark.parametrize("score", [-0.01, 1.01, float("nan"), float("inf"), None])
def test_a_score_is_a_number_from_0_to_1(score: float | None) -> None:
    """RUN-3: everyone who compares it need not ask; and no pack may leave it out."""
    answer = {"data": {}, "cost_usd_micros": 0}
    with pytest.raises(ValidationError):
        PackSuccess.model_validate(answer if score is None else answer | {"reliability_score": score})


@pytest.mark.parametrize(
    ("question", "score"), [("How long are refunds possible here today?", 0.2), ("What is the capital?", 0.0)]
)
def test_a_decision_is_as_reliable_as_it_is_confident(question: str, score: float) -> None:
    """RUN-25: one figure, said twice."""
    raw = {"question": question, "context": "Refunds are possible within 30 days."}
    answer = decision.run(DecisionInputs.model_validate(raw), request(PackType.DECISION, raw), ModelSettings.load({}))
    assert isinstance(answer, PackSuccess)
    assert answer.reliability_score == answer.data["confidence"] == pytest.approx(score, abs=0.006)


class TestUrl:
    """The share of the URLs that gave a result (RUN-26)."""

    @staticmethod
    def fetch(world: Internet, *urls: str, timebox_sec: int = 10, **more: Any) -> float:
        raw = {"urls": list(urls), "allow_http": True, **more}
        asked = request(PackType.URL, raw, timebox_sec)
        success = url.run(UrlInputs.model_validate(raw), asked, fetcher=world.fetcher, reader=world.reader)
        return success.reliability_score

    def test_a_result_of_each_url_is_1_whatever_its_status(self, world: Internet) -> None:
        """A 404 is a result."""

        def respond(handler: BaseHTTPRequestHandler) -> None:
            reply(handler, b"gone", status=404 if handler.path == "/missing" else 200)

        with serve(world, respond):
            assert self.fetch(world, "http://site.test/page", "http://site.test/missing") == 1.0

    def test_what_was_attempted_in_vain_lowers_it(self, world: Internet) -> None:
        """Four of five are exactly the default minimum."""
        with serve(world, reply):
            pages = [f"http://site.test/{number}" for number in range(4)]
            assert self.fetch(world, *pages, "http://unknown.test/") == 0.8

    def test_what_the_rules_refuse_is_no_result(self, world: Internet) -> None:
        """Blocked, malformed, of another scheme or port."""
        refused = ["http://127.0.0.1/", "no url", "gopher://x/", "http://site.test:25/"]
        with serve(world, reply):
            assert self.fetch(world, *refused) == 0.0
            assert self.fetch(world, *refused, "http://site.test/a") == 0.2

    def test_what_was_not_asked_for_is_not_counted(self, world: Internet) -> None:
        """A URL said twice is one, and the client itself set `max_urls`."""
        with serve(world, reply):
            assert self.fetch(world, "http://site.test/a", "http://site.test/a", "no url", max_urls=1) == 1.0

    def test_a_redirect_into_the_inside_or_without_end_is_no_result(self, world: Internet) -> None:
        """The first is blocked, the second discarded."""

        def respond(handler: BaseHTTPRequestHandler) -> None:
            where = "http://127.0.0.1/" if handler.path == "/inside" else "http://site.test/round"
            reply(handler, status=302, Location=where)

        with serve(world, respond):
            assert self.fetch(world, "http://site.test/inside", "http://site.test/round") == 0.0

    def test_what_the_timebox_cut_off_was_attempted(self, world: Internet) -> None:
        """A slow server is no fault of the client's."""
        let_go = threading.Event()

        def respond(handler: BaseHTTPRequestHandler) -> None:
            if handler.path == "/slow":
                let_go.wait(10)
            reply(handler, b"x")

        with serve(world, respond):
            try:
                urls = ("http://site.test/slow", "http://site.test/page")
                assert self.fetch(world, *urls, timebox_sec=3) == 0.5
            finally:
                let_go.set()


class TestCompliance:
    """Rules are exact; what was not examined is all that is uncertain (RUN-28)."""

    @staticmethod
    def check(text: str, **rules: Any) -> float:
        raw = {"documents": [{"id": "d", "text": text}], **rules}
        answer = compliance.run(ComplianceInputs.model_validate(raw))
        assert isinstance(answer, PackSuccess)
        return answer.reliability_score

    def test_findings_are_no_doubt(self) -> None:
        """Many, few or none, and shown or left out."""
        assert self.check("nothing") == 1.0
        assert self.check("a@example.com b@example.com c@example.com", max_findings=1) == 1.0

    def test_a_rule_that_was_stopped_lowers_it_by_its_share(self) -> None:
        """One of five rules (two sets, a clause, two patterns) is exactly the default minimum."""
        rules: dict[str, Any] = {
            "required_clauses": [{"id": "c", "any_of": ["aa"]}],
            "patterns": [{"id": "many", "pattern": "a"}, {"id": "few", "pattern": "b"}],
        }
        assert self.check("a" * MAX_MATCHES, **rules) == 1.0
        assert self.check("a" * (MAX_MATCHES + 1), **rules) == 0.8
        assert self.check("a" * (MAX_MATCHES + 1), rule_sets=[], patterns=rules["patterns"][:1]) == 0.0


class TestEval:
    """The share of the references that could be compared by every metric (RUN-28)."""

    @staticmethod
    def score(predictions: dict[str, Any], references: dict[str, Any], *metrics: str) -> float:
        raw = {
            "predictions": [{"id": name, "value": value} for name, value in predictions.items()],
            "references": [{"id": name, "value": value} for name, value in references.items()],
            "metrics": [{"type": name} for name in metrics],
        }
        return evaluation.run(EvalInputs.model_validate(raw)).reliability_score

    def test_wrong_answers_are_as_reliable_as_right_ones(self) -> None:
        """The verdict judges the answers; this judges the comparison."""
        assert self.score({"1": "x", "2": "y"}, {"1": "x", "2": "z"}, "exact_match", "token_f1") == 1.0

    def test_missing_answers_lower_it_answers_to_nothing_do_not(self) -> None:
        """Four of five are exactly the default minimum."""
        references = {str(number): "x" for number in range(5)}
        predictions = {str(number): "x" for number in range(1, 9)}
        assert self.score(predictions, references, "exact_match") == 0.8
        assert self.score({"other": "x"}, references, "exact_match") == 0.0

    def test_one_metric_that_can_not_read_an_item_is_enough(self) -> None:
        """On either side."""
        numbers = {"1": "1", "2": "2", "3": "3", "4": "4"}
        assert self.score(numbers | {"1": "one"}, numbers, "exact_match", "numeric") == 0.75
        assert self.score(numbers, numbers | {"1": "one", "2": "two"}, "exact_match", "numeric") == 0.5
