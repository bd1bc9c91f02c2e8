"""LocalStack with our executor and our queue pollers, apart from the platform: throw-away functions only."""

import io
import json
import signal
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
import pytest

from dpp_cli.local.localstack import LocalStackServer, client_environment, endpoint_url, function_log_dir
from dpp_cli.local.processes import marked
from dpp_cli.local.servers import free_port

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

pytestmark = pytest.mark.e2e

# Tells when it began and ended, by messages; one that says "bad" is a batch item failure.
WORKER = """
import json, os, time, urllib.request
def handler(event, context):
    (record,) = event["Records"]
    bad = "bad" in record["body"]
    begun = time.time()
    if not bad:
        time.sleep(2)
    line = {"body": record["body"], "begun": begun, "ended": time.time(), "pid": os.getpid()}
    line["received"] = int(record["attributes"]["ApproximateReceiveCount"])
    with open(os.environ["JOURNAL"], "a") as journal:
        journal.write(json.dumps(line) + "\\n")
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]}] if bad else []}
"""


@dataclass(frozen=True)
class Cloud:
    """A LocalStack of this module's own."""

    state_dir: Path
    session: boto3.Session
    endpoint: str

    def client(self, service: Any) -> Any:
        """A boto3 client."""
        return self.session.client(service, endpoint_url=self.endpoint)

    def function(self, source: str, **variables: str) -> str:
        """Create a function; its name."""
        name, archive = f"f-{uuid4().hex[:8]}", io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("app.py", source)
        functions = self.client("lambda")
        functions.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Role="arn:aws:iam::000000000000:role/any",
            Handler="app.handler",
            Timeout=10,
            Code={"ZipFile": archive.getvalue()},
            Environment={"Variables": variables},
        )
        functions.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 1})
        return name


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """LocalStack, gone with all its processes afterwards."""
    state_dir = tmp_path_factory.mktemp("stack")
    server = LocalStackServer.start(state_dir, free_port())
    endpoint = endpoint_url(server.port)
    keys = client_environment(endpoint)
    session = boto3.Session(keys["AWS_ACCESS_KEY_ID"], keys["AWS_SECRET_ACCESS_KEY"], region_name=keys["AWS_REGION"])
    try:
        yield Cloud(state_dir, session, endpoint)
    finally:
        server.stop()
        for stray in marked(state_dir):
            stray.end(signal.SIGKILL)


@dataclass(frozen=True)
class Work:
    """A queue with dead letters and the worker that empties it."""

    sqs: "SQSClient"
    queue_url: str
    dead_letters_url: str
    journal: Path

    def lines(self, count: int, within_seconds: float = 60) -> list[dict[str, Any]]:
        """The journal once it has so many lines."""
        deadline = time.monotonic() + within_seconds
        while time.monotonic() < deadline:
            lines = self.journal.read_text().splitlines() if self.journal.exists() else []
            if len(lines) >= count:
                return [json.loads(line) for line in lines]
            time.sleep(0.1)
        raise AssertionError(f"{len(lines)} of {count} after {within_seconds} s")


@pytest.fixture
def work(cloud: Cloud, tmp_path: Path) -> Work:
    """The queue of one test."""
    sqs = cloud.client("sqs")

    def queue(**attributes: Any) -> tuple[str, str]:
        url = sqs.create_queue(QueueName=f"q-{uuid4().hex[:8]}", Attributes=attributes)["QueueUrl"]
        return url, sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]

    dead_letters_url, dead_letters_arn = queue()
    redrive = json.dumps({"deadLetterTargetArn": dead_letters_arn, "maxReceiveCount": 3})
    queue_url, queue_arn = queue(VisibilityTimeout="10", RedrivePolicy=redrive)
    journal = tmp_path / "journal"
    cloud.client("lambda").create_event_source_mapping(
        FunctionName=cloud.function(WORKER, JOURNAL=str(journal)),
        EventSourceArn=queue_arn,
        BatchSize=1,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    return Work(sqs, queue_url, dead_letters_url, journal)


def test_messages_are_worked_on_at_once_each_in_a_process_of_its_own(work: Work) -> None:
    for number in range(4):
        work.sqs.send_message(QueueUrl=work.queue_url, MessageBody=str(number))
    lines = work.lines(4)
    assert {line["body"] for line in lines} == {"0", "1", "2", "3"}
    assert len({line["pid"] for line in lines}) > 1
    overlaps = [
        (a["body"], b["body"])
        for a in lines
        for b in lines
        if a["body"] < b["body"] and a["begun"] < b["ended"] and b["begun"] < a["ended"]
    ]
    assert overlaps


def test_a_failing_message_comes_back_and_ends_in_the_dead_letters_after_three_receives(work: Work) -> None:
    """RUN-15."""
    work.sqs.send_message(QueueUrl=work.queue_url, MessageBody="bad")
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = work.sqs.receive_message(QueueUrl=work.dead_letters_url, WaitTimeSeconds=5).get("Messages")
        if found:
            break
    assert found
    assert found[0]["Body"] == "bad"
    assert [line["received"] for line in work.lines(3)] == [1, 2, 3]


def test_a_function_that_does_not_load_says_why_in_its_log(cloud: Cloud) -> None:
    name = cloud.function("import rich\n")
    answer = cloud.client("lambda").invoke(FunctionName=name)
    assert answer["FunctionError"]
    assert json.loads(answer["Payload"].read())["errorType"] == "Runtime.ImportModuleError"
    log = (function_log_dir(cloud.state_dir) / f"{name}.log").read_text()
    assert "INIT FAILED" in log
    assert "No module named 'rich'" in log
