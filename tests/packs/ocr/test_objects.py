"""The bytes of an object reach the pack by one signed URL, in a process without credentials (RUN-27, D6)."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import boto3
import pytest
import requests
from botocore.config import Config

from dpp.packs.contract import ObjectRefusedError, PackFailure, PackReason, PackRequest, PackSuccess, PackType
from dpp.packs.inputs.ocr import OcrInputs
from dpp.packs.objects import signed_urls
from dpp.packs.ocr.faults import ImageFault, ImageFaultError
from dpp.packs.ocr.images import MAX_IMAGE_BYTES
from dpp.packs.ocr.pack import run
from dpp.packs.ocr.settings import OcrSettings
from dpp.packs.ocr.sources import fetch_object
from dpp.packs.process import PackProcess
from dpp.platform.aws.storage import ObjectStore
from tests.packs.loopback import reply, serving
from tests.packs.ocr.drawing import ENGLISH, character_error_rate, draw, encoded, inline

FILE = encoded(draw(ENGLISH[:2], 30))


def s3(key: str, **more: str) -> dict[str, Any]:
    return {"images": [{"kind": "s3", "key": key, **more}]}


@pytest.fixture
def bucket(aws: None) -> ObjectStore:
    store = ObjectStore(f"bucket-{uuid4()}")
    client = boto3.client("s3")
    client.create_bucket(Bucket=store.bucket)
    client.put_object(Bucket=store.bucket, Key="inputs/t_a/계약서 1.png", Body=FILE)
    return store


def test_the_url_reads_the_object_and_ends_soon(bucket: ObjectStore) -> None:
    """RUN-27: one object, for the timebox and a minute."""
    key = "inputs/t_a/계약서 1.png"
    urls = signed_urls("ocr", s3(key, bucket=bucket.bucket), "t_a", bucket, 90)
    assert set(urls) == {key}
    assert requests.get(urls[key], timeout=10).content == FILE
    assert parse_qs(urlsplit(urls[key]).query)["X-Amz-Expires"] == ["150"]


def test_inputs_that_name_no_object_sign_none(bucket: ObjectStore) -> None:
    """RUN-27: neither do the other packs."""
    assert signed_urls("ocr", {"images": [inline(b"x" * 9)]}, "t_a", bucket, 90) == {}
    assert signed_urls("decision", {"question": "inputs/t_b/x"}, "t_a", bucket, 90) == {}


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (s3("inputs/t_b/x"), "images.0: a key is inputs/{your tenant id}/…"),
        (s3("inputs/t_a/../t_b/x"), "images.0: a key has no empty part"),
        (s3("inputs/t_a/x", bucket="another-bucket"), "images.0: the bucket is not this deployment's"),
    ],
)
def test_what_is_not_the_tenants_is_never_signed(bucket: ObjectStore, inputs: dict[str, Any], message: str) -> None:
    """RUN-27: the worker decides by the row's tenant, whatever the API let pass."""
    with pytest.raises(ObjectRefusedError) as refused:
        signed_urls("ocr", inputs, "t_a", bucket, 90)
    assert str(refused.value).startswith(message)
    assert "t_b" not in str(refused.value)


def test_an_object_is_read_in_the_pack_process(tessdata: Path) -> None:
    """RUN-27, D6: by the URL alone; the process sees no credentials of its worker."""
    asked: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        reply(handler, FILE, content_type="image/png")

    with serving(respond) as port:
        client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name="us-east-1",
            aws_access_key_id="AKIDEXAMPLE",
            aws_secret_access_key="secret",
            config=Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )
        store = ObjectStore("the-bucket", lambda: client)
        key = "inputs/t_a/a b.png"
        request = PackRequest(
            run_id="run",
            pack_type=PackType.OCR,
            inputs=s3(key),
            timebox_sec=60,
            max_cost_usd_micros=250_000,
            object_urls=signed_urls("ocr", s3(key), "t_a", store, 60),
        )
        environ = {"AWS_SECRET_ACCESS_KEY": "must not be seen", "DPP_TESSDATA_DIR": str(tessdata)}
        with PackProcess({**os.environ, **environ}) as process:
            result = process.run(request, cancelled=threading.Event())
    assert isinstance(result, PackSuccess), result
    [text] = json.loads(result.model_dump_json())["data"]["texts"]
    read = " ".join(block["text"] for block in text["blocks"])
    assert character_error_rate(ENGLISH[:2], read) <= 0.02
    assert len(asked) == 1
    assert asked[0].startswith("/the-bucket/inputs/t_a/a%20b.png?")


def test_a_process_without_trained_data_fails_by_name() -> None:
    """RUN-27: as an operator has to mend it."""
    request = PackRequest(
        run_id="run",
        pack_type=PackType.OCR,
        inputs={"images": [inline(FILE)]},
        timebox_sec=30,
        max_cost_usd_micros=250_000,
    )
    with PackProcess({**os.environ, "DPP_TESSDATA_DIR": "/nowhere"}) as process:
        result = process.run(request, cancelled=threading.Event())
    assert isinstance(result, PackFailure)
    assert result.reason_code is PackReason.PACK_FAILED
    assert "trained data" in result.detail


@pytest.mark.parametrize(
    ("status", "body", "fault", "times"),
    [
        (404, b"", ImageFault.OBJECT_NOT_READABLE, 1),
        (403, b"", ImageFault.OBJECT_NOT_READABLE, 1),
        (302, b"", ImageFault.OBJECT_NOT_READABLE, 1),
        (503, b"", ImageFault.OBJECT_UNAVAILABLE, 3),
        (200, bytes(MAX_IMAGE_BYTES + 1), ImageFault.TOO_MANY_BYTES, 1),
    ],
)
def test_a_store_that_does_not_give_the_object_is_a_fault_by_name(
    status: int, body: bytes, fault: ImageFault, times: int
) -> None:
    """RUN-27: no redirect is followed, a busy store is asked again, and no more is taken than is allowed."""
    asked: list[str] = []

    def respond(handler: BaseHTTPRequestHandler) -> None:
        asked.append(handler.path)
        reply(handler, body, status=status, Location="http://127.0.0.1:1/other")

    with serving(respond) as port, pytest.raises(ImageFaultError) as refused:
        fetch_object(f"http://127.0.0.1:{port}/x", time.monotonic() + 20)
    assert refused.value.fault is fault
    assert len(asked) == times


def test_an_object_that_arrives_slowly_takes_no_time_from_the_others(tessdata: Path) -> None:
    """RUN-27: its download has a share of the timebox."""
    key, granted = "inputs/t_a/slow.png", []

    def fetch(_url: str, deadline: float) -> bytes:
        granted.append(deadline - time.monotonic())
        raise ImageFaultError(ImageFault.TIMEBOX)

    inputs = OcrInputs.model_validate({"images": [{"kind": "s3", "key": key}, inline(FILE)]})
    request = PackRequest(
        run_id="run",
        pack_type=PackType.OCR,
        inputs={},
        timebox_sec=90,
        max_cost_usd_micros=250_000,
        object_urls={key: "https://example.com/"},
    )
    result = run(inputs, request, OcrSettings.load({"DPP_TESSDATA_DIR": str(tessdata)}), fetch=fetch)
    assert isinstance(result, PackSuccess)
    assert result.discard_log == [{"source": key, "reason": "TOO_SLOW"}]
    assert result.data["pages"] == 1
    assert granted[0] <= 25


def test_a_store_that_is_away_is_a_fault_by_name() -> None:
    """RUN-27."""
    with pytest.raises(ImageFaultError) as refused:
        fetch_object("http://127.0.0.1:1/x", time.monotonic() + 20)
    assert refused.value.fault is ImageFault.OBJECT_UNAVAILABLE
