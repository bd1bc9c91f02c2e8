"""Lets LocalStack's CloudFormation ask a custom resource's function, as AWS does; the community edition does not.

Found by LocalStack through its plugin namespace of resource providers. The function is invoked with the request of
the CloudFormation guide ("Custom resources"), and answers by a PUT to the URL in it, which here is this server's.
"""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from typing import Any, ClassVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from localstack.aws.connect import connect_to
from localstack.constants import INTERNAL_AWS_SECRET_ACCESS_KEY
from localstack.services.cloudformation.resource_provider import (
    CloudFormationResourceProviderPlugin,
    OperationStatus,
    ProgressEvent,
    ResourceProvider,
    ResourceRequest,
)

_DEFAULT_SECONDS = 3600  # as on AWS, where a template says nothing
_ID = "PhysicalResourceId"

type Answer = dict[str, Any]


class CustomResourceProvider(ResourceProvider):  # type: ignore[misc]  # LocalStack ships no types
    """Create, update and delete by asking the function that `ServiceToken` names."""

    TYPE = "AWS::CloudFormation::CustomResource"
    SCHEMA: ClassVar[Any] = {
        "typeName": TYPE,
        "properties": {_ID: {"type": "string"}},
        "primaryIdentifier": [f"/properties/{_ID}"],
        "readOnlyProperties": [f"/properties/{_ID}"],
    }

    def create(self, request: ResourceRequest) -> ProgressEvent:
        """Ask for a new one."""
        return self._asked(request, "Create", {})

    def update(self, request: ResourceRequest) -> ProgressEvent:
        """Ask for a change; the function learns what was before."""
        before = dict(request.previous_state or {})
        more = {_ID: before.pop(_ID, ""), "OldResourceProperties": before}
        return self._asked(request, "Update", more)

    def delete(self, request: ResourceRequest) -> ProgressEvent:
        """Ask for the end."""
        return self._asked(request, "Delete", {_ID: dict(request.desired_state).get(_ID, "")})

    def _asked(self, request: ResourceRequest, kind: str, more: Answer) -> ProgressEvent:
        properties = {name: value for name, value in dict(request.desired_state).items() if name != _ID}
        with _mailbox() as (url, answers):
            event = {
                "RequestType": kind,
                "ResponseURL": url,
                "StackId": request.stack_id,
                "RequestId": str(uuid.uuid4()),
                "ResourceType": request.resource_type,
                "LogicalResourceId": request.logical_resource_id,
                "ResourceProperties": properties,
                **more,
            }
            seconds = int(properties.get("ServiceTimeout", _DEFAULT_SECONDS))
            functions = connect_to(
                aws_access_key_id=request.account_id,
                aws_secret_access_key=INTERNAL_AWS_SECRET_ACCESS_KEY,
                region_name=request.region_name,
                config=Config(read_timeout=seconds, retries={"total_max_attempts": 1}),
            ).lambda_
            asked = (functions, properties["ServiceToken"], json.dumps(event).encode(), answers)
            threading.Thread(target=_invoke, args=asked, name="custom-resource-asked", daemon=True).start()
            try:
                answer = answers.get(timeout=seconds)
            except Empty:
                answer = {"Status": "FAILED", "Reason": f"no answer within {seconds} s"}
        if answer["Status"] != "SUCCESS":
            reason = answer.get("Reason", "")
            return ProgressEvent(status=OperationStatus.FAILED, resource_model=properties, message=reason)
        model = {**properties, **answer.get("Data", {}), _ID: answer[_ID]}
        return ProgressEvent(status=OperationStatus.SUCCESS, resource_model=model)


class CustomResourcePlugin(CloudFormationResourceProviderPlugin):  # type: ignore[misc]
    """Entry point of `localstack.cloudformation.resource_providers`."""

    name = CustomResourceProvider.TYPE

    def __init__(self) -> None:
        self.factory: type[CustomResourceProvider] | None = None

    def load(self) -> None:
        """LocalStack calls this to load the provider."""
        self.factory = CustomResourceProvider


def _invoke(functions: Any, name: str, payload: bytes, answers: "SimpleQueue[Answer]") -> None:
    """Ask the function; where it failed, nobody is left to answer, and we do.

    Not by an event, as AWS does. After an update of the function two of LocalStack's pollers take from the queue of
    events for a while, and the old one drops what it gets: a deployment would now and then wait all its patience.
    """
    try:
        ended = functions.invoke(FunctionName=name, Payload=payload)
    except (BotoCoreError, ClientError) as error:
        answers.put({"Status": "FAILED", "Reason": str(error)})
    else:
        if "FunctionError" in ended:
            answers.put({"Status": "FAILED", "Reason": f"the function failed: {ended['FunctionError']}"})


@contextmanager
def _mailbox() -> Iterator[tuple[str, "SimpleQueue[Answer]"]]:
    """A URL on loopback that takes one answer, which is then in the queue."""
    answers: SimpleQueue[Answer] = SimpleQueue()
    secret = uuid.uuid4().hex

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            known = self.path == f"/{secret}"
            if known:
                answers.put(json.loads(body))
            self.send_response(200 if known else 403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: the URL would be in it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, name="custom-resource", daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{secret}", answers
    finally:
        server.shutdown()
        server.server_close()
