"""An ocr run on the deployed stack: the object, the worker's layer, Tesseract, the envelope (RUN-27)."""

from uuid import uuid4

import httpx
import pytest

from tests.e2e.conftest import Platform
from tests.packs.ocr.drawing import KOREAN, character_error_rate, draw, encoded

pytestmark = pytest.mark.e2e


def test_an_image_of_the_bucket_is_read_and_anothers_is_refused(platform: Platform) -> None:
    """RUN-27: put where the tenant's objects are, read by the worker alone, charged once."""
    tenant = platform.tenant()
    key = f"inputs/{tenant.tenant_id}/{uuid4()}.png"
    _put(platform, key, encoded(draw(KOREAN, 30)))
    body = {
        "pack_type": "ocr",
        "inputs": {"images": [{"kind": "s3", "key": key}], "artifacts": {"include_markdown": True}},
        "reservation": {"max_cost_usd": "0.1000", "timebox_sec": 60},
    }
    accepted = platform.submit(tenant, body)
    assert accepted.status_code == 202, accepted.text
    view = platform.finished(tenant, accepted.json()["run_id"], within_seconds=100)
    assert (view["status"], view["money_state"]) == ("COMPLETED", "SETTLED"), view
    envelope = httpx.get(view["result"]["presigned_url"], trust_env=False).json()
    [text] = envelope["data"]["texts"]
    read = "\n".join(block["text"] for block in text["blocks"])
    assert text["source"] == key
    assert character_error_rate(KOREAN, read) <= 0.02
    assert envelope["artifacts"]["markdown"]["text"].startswith("<!-- page 1 -->")
    assert envelope["cost"]["used_usd"] == "0.0071"
    assert platform.position(tenant).balanced

    other = platform.tenant()
    assert platform.submit(other, body).status_code == 422


def _put(platform: Platform, key: str, data: bytes) -> None:
    platform.aws("s3").put_object(Bucket=platform.state.outputs["ResultsBucket"], Key=key, Body=data)
