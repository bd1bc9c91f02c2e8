"""GET /v1/runs/{run_id} (RUN-10, RUN-13): the response in each state of a run."""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config

from dpp.packs.contract import PackFailure, PackReason, PackSuccess
from dpp.platform.aws.signing import assumed_role
from dpp.runs.api.contract import INLINE_LIMIT_BYTES
from dpp.runs.jobs.reap import reap
from dpp_cli.local.servers import HOST, free_port
from tests.http.state import work
from tests.support.api import Answer, ApiClient, a_body
from tests.support.world import A_COST, DONE, Tenant, World

_IMPATIENT = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})


def assert_costs_agree(answer: Answer) -> None:
    """RUN-13: the headers equal the body."""
    cost = answer.body["cost"]
    assert answer.costs() == (
        cost["reserved_usd"],
        cost["used_usd"],
        cost["budget_remaining_usd"],
        str(answer.body["tokens_consumed"]),
    )


def stored(world: World, presigned_url: str) -> bytes:
    """The object that a URL grants access to."""
    key = urlsplit(presigned_url).path.removeprefix(f"/{world.bucket}/")
    return bytes(world.s3.get_object(Bucket=world.bucket, Key=key)["Body"].read())


def test_a_queued_run_has_its_reservation(api: ApiClient, world: World) -> None:
    """RUN-10: with exactly these members."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(meta={"trace_id": "t_mine"})).body["run_id"]
    answer = api.read(tenant, run_id)
    body = answer.body
    made, changed = (datetime.fromisoformat(body["meta"].pop(name)) for name in ("created_at", "updated_at"))
    assert answer.status == 200
    assert made == changed
    assert made.utcoffset() is not None
    assert body == {
        "run_id": run_id,
        "pack_type": "decision",
        "status": "QUEUED",
        "money_state": "RESERVED",
        "cost": {
            "reserved_usd": "0.2500",
            "used_usd": "0.0000",
            "minimum_fee_usd": "0.0050",
            "budget_remaining_usd": "9.7500",
        },
        "tokens_consumed": 0,
        "meta": {"trace_id": "t_mine", "profile_version": "PROFILE_DPP_0_4_2_2"},
    }
    assert answer.costs() == ("0.2500", "0.0000", "9.7500", "0")


def test_a_processing_run_has_neither_result_nor_problem(api: ApiClient, world: World) -> None:
    """RUN-10, RUN-16."""
    tenant = world.tenant()
    run = world.leased(tenant)
    answer = api.read(tenant, run.id)
    assert (answer.body["status"], answer.body["money_state"]) == ("PROCESSING", "RESERVED")
    assert not {"result", "problem"} & set(answer.body)
    assert "lease" not in answer.text
    assert_costs_agree(answer)


def test_a_completed_run_has_a_url_of_its_result_for_ten_minutes(api: ApiClient, world: World) -> None:
    """RUN-10, 001 §13.3: a presigned URL of the object, its SHA-256, and the expiry of the URL."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body()).body["run_id"]
    work(world)
    answer = api.read(tenant, run_id)
    result = answer.body["result"]
    assert (answer.body["status"], answer.body["money_state"]) == ("COMPLETED", "SETTLED")
    assert set(result) == {"presigned_url", "sha256", "expires_at"}
    url = urlsplit(result["presigned_url"])
    assert url.path.endswith(f"/{run_id}/pack_envelope.json")
    assert parse_qs(url.query)["X-Amz-Expires"] == ["600"]
    left = datetime.fromisoformat(result["expires_at"]) - datetime.now(UTC)
    assert timedelta(seconds=570) < left <= timedelta(seconds=600)
    body = stored(world, result["presigned_url"])
    assert hashlib.sha256(body).hexdigest() == result["sha256"]
    assert answer.costs() == ("0.2500", "0.0500", "9.9500", "7")
    assert_costs_agree(answer)


class TestSigningRole:
    """With a signing role, as deployed (RUN-10): only the session from STS signs."""

    @pytest.fixture
    def completed(self, api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch) -> tuple[Tenant, str]:
        monkeypatch.setenv("DPP_SIGNING_ROLE_ARN", "arn:aws:iam::123456789012:role/signing")
        tenant = world.tenant()
        run_id: str = api.submit(tenant, a_body()).body["run_id"]
        work(world)
        return tenant, run_id

    def test_its_session_signs(self, api: ApiClient, completed: tuple[Tenant, str]) -> None:
        """RUN-10."""
        result = api.read(*completed).body["result"]
        query = parse_qs(urlsplit(result["presigned_url"]).query)
        assert query["X-Amz-Expires"] == ["600"]
        assert not query["X-Amz-Credential"][0].startswith("testing/")
        assert query["X-Amz-Security-Token"]

    def test_without_sts_the_read_is_a_503_and_works_again_afterwards(
        self, api: ApiClient, completed: tuple[Tenant, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """RUN-9, RUN-10: never a URL that may expire early, and no internals in the response."""
        away = boto3.client("sts", endpoint_url=f"http://{HOST}:{free_port()}", config=_IMPATIENT)
        with monkeypatch.context() as broken:
            broken.setattr("runs_read.handler.assumed_role", lambda arn: assumed_role(arn, lambda: away))
            answer = api.read(*completed)
        assert (answer.status, answer.body["reason_code"]) == (503, "DEPENDENCY_UNAVAILABLE")
        assert "sts" not in answer.text.lower().replace("requests", "")
        api.close()  # a new container
        assert api.read(*completed).body["result"]["presigned_url"]


@pytest.mark.parametrize(
    ("max_cost", "fee", "remaining"),
    [("0.2500", "0.0050", "9.9950"), ("2.0000", "0.0400", "9.9600"), ("10.0000", "0.1000", "9.9000")],
)
def test_a_failed_run_has_its_reason_and_cost(
    api: ApiClient, world: World, max_cost: str, fee: str, remaining: str
) -> None:
    """RUN-10, RUN-17, RUN-23, RUN-24: the minimum fee; the envelope has the problem and what was found nevertheless."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(reservation={"max_cost_usd": max_cost})).body["run_id"]
    found = {"data": {"pages": ["one"]}, "discard_log": [{"page": 2}], "tokens_consumed": 7}
    work(world, PackFailure(reason_code=PackReason.PACK_FAILED, detail="It broke.", **found))
    answer = api.read(tenant, run_id)
    problem = {"reason_code": "PACK_FAILED", "detail": "It broke."}
    assert (answer.body["status"], answer.body["money_state"]) == ("FAILED", "SETTLED")
    assert answer.body["problem"] == problem
    envelope = json.loads(stored(world, answer.body["result"]["presigned_url"]))
    assert envelope["data"] == {"pages": ["one"], "problem": problem}
    assert envelope["logs"]["discard_log"] == [{"page": 2}]
    assert (envelope["status"], envelope["meta"]["tokens_consumed"]) == ("FAILED", 7)
    assert answer.costs() == (max_cost, fee, remaining, "7")
    assert_costs_agree(answer)
    assert world.position(tenant).balanced


def test_each_part_of_a_large_envelope_has_a_url(api: ApiClient, world: World) -> None:
    """RUN-10, RUN-18: with its place, hash, size and expiry; the envelope itself is inline, if requested."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(options={"inline": 1})).body["run_id"]
    words = ["글"] * 400_000
    work(world, PackSuccess(data={"words": words, "pages": 1}, reliability_score=1, cost_usd_micros=A_COST))
    result = api.read(tenant, run_id).body["result"]
    [part] = result["parts"]
    assert part["name"] == "data.words"
    body = stored(world, part["presigned_url"])
    assert json.loads(body) == words
    assert (part["sha256"], part["size_bytes"]) == (hashlib.sha256(body).hexdigest(), len(body))
    assert part["expires_at"] == result["expires_at"]
    assert result["inline"]["data"]["pages"] == 1
    assert result["inline"]["data"]["words"]["part"]["sha256"] == part["sha256"]


def test_a_run_whose_worker_died_has_worker_timeout(api: ApiClient, world: World) -> None:
    """RUN-20, RUN-10: with the minimum fee."""
    tenant = world.tenant()
    run = world.leased(tenant)
    reap(world.finalize_effects(), world.new_database(), now=world.later(seconds=121))
    answer = api.read(tenant, run.id)
    assert answer.body["problem"]["reason_code"] == "WORKER_TIMEOUT"
    assert answer.costs() == ("0.2500", "0.0050", "9.9950", "0")


def test_an_open_claim_is_not_in_the_response(api: ApiClient, world: World) -> None:
    """RUN-10, D3: status, cost and result are those that were committed."""
    tenant = world.tenant()
    run = world.leased(tenant)
    world.sql(
        "UPDATE runs SET finalize_stage = 'CLAIMED', finalize_token = 't', finalize_claimed_at = now(),"
        " finalize_outcome = 'COMPLETED', finalize_money_state = 'SETTLED', finalize_charge_usd_micros = 1,"
        " result_bucket = 'b', result_key = 'k', result_sha256 = repeat('a', 64)"
    )
    answer = api.read(tenant, run.id)
    assert (answer.body["status"], answer.body["cost"]["used_usd"]) == ("PROCESSING", "0.0000")
    assert not {"result", "problem"} & set(answer.body)


def test_a_small_result_is_in_the_response_if_requested(api: ApiClient, world: World) -> None:
    """RUN-3: with options.inline 1; empty members of the envelope are kept."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(options={"inline": 1})).body["run_id"]
    work(
        world, PackSuccess(data={"answer_text": "42", "nothing": None}, reliability_score=0.85, cost_usd_micros=A_COST)
    )
    result = api.read(tenant, run_id).body["result"]
    assert result["inline"]["data"] == {"answer_text": "42", "nothing": None}
    assert result["inline"]["run_id"] == run_id
    assert result["inline"]["meta"]["reliability_score"] == 0.85
    assert "inline_omitted" not in result


@pytest.mark.parametrize("above", [0, 1])
def test_an_inline_result_has_256_kb_at_most(api: ApiClient, world: World, above: int) -> None:
    """RUN-3: in bytes of the stored envelope; above it, the response has the URL and the reason."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(options={"inline": 1})).body["run_id"]
    work(world)
    _grow(world, INLINE_LIMIT_BYTES + above)
    result: dict[str, Any] = api.read(tenant, run_id).body["result"]
    assert ("inline" in result) == (above == 0)
    assert result.get("inline_omitted") == ("TOO_LARGE" if above else None)
    assert result["presigned_url"]


def test_no_result_is_inline_by_default(api: ApiClient, world: World) -> None:
    """RUN-3."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body(options={"inline": 0})).body["run_id"]
    work(world, DONE)
    assert "inline" not in api.read(tenant, run_id).body["result"]


def test_an_id_may_be_written_in_upper_case(api: ApiClient, world: World) -> None:
    """RFC 9562: the hex digits are case-insensitive; the response has lower case."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body()).body["run_id"]
    assert api.read(tenant, run_id.upper()).body["run_id"] == run_id


def test_responses_are_never_cached(api: ApiClient, world: World) -> None:
    """RUN-10: a poll must return the current run, and a presigned URL is a secret."""
    tenant = world.tenant()
    run_id = api.submit(tenant, a_body()).body["run_id"]
    assert api.read(tenant, run_id).headers["Cache-Control"] == "no-store"
    assert api.read(tenant, "x").headers["Cache-Control"] == "no-store"


def _grow(world: World, size: int) -> None:
    """Enlarge the stored envelope to `size` bytes."""
    [found] = world.s3.list_objects_v2(Bucket=world.bucket)["Contents"]
    body = world.s3.get_object(Bucket=world.bucket, Key=found["Key"])["Body"].read()
    padded = json.dumps(json.loads(body)).encode().ljust(size)
    world.s3.put_object(Bucket=world.bucket, Key=found["Key"], Body=padded)
