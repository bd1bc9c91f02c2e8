"""A Lambda environment in its own process, for the tests of leaks: `python -m tests.observability.driver`.

Reads a JSON plan from stdin. `steps`: each is a function with its event, `deliver` (the worker with all messages),
`sabotage` (what fails from here on), or `environ` (start again in this environment). Writes to stdout and stderr what
Lambda would log, including message and stack of a handler's exception, and to the file `plan["leaves"]` every sent
queue message and the answers by step.
"""

import contextlib
import importlib
import json
import logging
import os
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import Any

import boto3
import psycopg
from moto import mock_aws

from dpp.packs.process import PackProcess
from tests.support.api import lambda_context

_broken: list[tuple[Any, str, Any]] = []
SECRET = os.environ.get("DPP_TEST_CANARY", "")


def main() -> None:
    """Execute the plan."""
    plan = json.loads(sys.stdin.read())
    # Lambda's handler on the root logger, at the level of AWS_LAMBDA_LOG_LEVEL.
    logging.basicConfig(level=plan["root_level"], stream=sys.stdout, format="[%(levelname)s] %(name)s %(message)s")
    for name in ("moto", "werkzeug", "responses", "asyncio"):  # the AWS stand-in's loggers
        logging.getLogger(name).setLevel(logging.WARNING)
    left: dict[str, Any] = {"messages": [], "answers": []}
    with mock_aws() if plan["aws"] else contextlib.nullcontext():
        if plan["aws"]:
            _make_resources()
        if plan["packs"]:
            made = partial(PackProcess, executor_module=plan["packs"])
            importlib.import_module("run_worker.handler").PackProcess = made  # type: ignore[attr-defined]
        for step in plan["steps"]:
            if "sabotage" in step:
                _sabotage(*step["sabotage"])
                continue
            if "workspaces" in step:
                _want_of_workspaces(step["workspaces"])
                continue
            if "environ" in step:
                _start_anew(step["environ"])
                continue
            for event in _events(step, left):
                left["answers"].append([step["function"], _invoke(step["function"], event)])
        if plan["aws"]:
            left["messages"] += _received()
    Path(plan["leaves"]).write_text(json.dumps(left), encoding="utf-8")


def _sabotage(module: str, attribute: str, kind: str) -> None:
    """Break this attribute, and repair the one that was broken before."""
    for broken_module, broken_attribute, whole in _broken:
        setattr(broken_module, broken_attribute, whole)
    found = importlib.import_module(module)
    _broken[:] = [(found, attribute, getattr(found, attribute))]
    setattr(found, attribute, _exploding(kind))


def _start_anew(environ: dict[str, str]) -> None:
    """Continue as a new container in another environment: drop the handlers' wirings."""
    os.environ.update(environ)
    for name, module in list(sys.modules.items()):
        if name.endswith(".handler") and hasattr(getattr(module, "wiring", None), "cache_clear"):
            module.wiring.cache_clear()


def _want_of_workspaces(desired_state: str) -> None:
    """Set the desired state of all workspaces, as a client would."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        connection.execute("SET LOCAL ROLE dpp_workspace_api")
        ids = connection.execute(
            "UPDATE workspaces SET desired_state = %s RETURNING workspace_id", [desired_state]
        ).fetchall()
    for (workspace_id,) in ids:
        boto3.client("sqs").send_message(
            QueueUrl=os.environ["DPP_WORKSPACE_LOOK_QUEUE_URL"], MessageBody=json.dumps({"look": str(workspace_id)})
        )


def _make_resources() -> None:
    for variable, name in (
        ("DPP_RUN_QUEUE_URL", "runs"),
        ("DPP_RUN_DEAD_LETTER_QUEUE_URL", "dead"),
        ("DPP_AUTH_ERROR_QUEUE_URL", "events"),
        ("DPP_AUTH_ERROR_DEAD_LETTER_QUEUE_URL", "dead-events"),
        ("DPP_AUTH_ERROR_WAKE_QUEUE_URL", "wake"),
        ("DPP_WORKSPACE_LOOK_QUEUE_URL", "looks"),
        ("DPP_WORKSPACE_WORK_QUEUE_URL", "works"),
    ):
        os.environ[variable] = boto3.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    for variable in ("DPP_RESULTS_BUCKET", "DPP_ARCHIVES_BUCKET"):
        if variable in os.environ:
            boto3.client("s3").create_bucket(Bucket=os.environ[variable])


def _events(step: dict[str, Any], left: dict[str, Any]) -> list[dict[str, Any]]:
    if "queue" in step:
        return [{"Records": records}] if (records := _taken(step["queue"])) else []
    if step.get("events"):
        return [{"Records": _event_records(step.get("more", []))}]
    if not step.get("deliver"):
        return [step["event"]]
    bodies = _received()
    left["messages"] += bodies
    records = [
        {"messageId": f"m{number}", "receiptHandle": "handle", "body": body, "eventSource": "aws:sqs"}
        for number, body in enumerate([*bodies, *step.get("more", [])])
    ]
    return [{"Records": [record]} for record in records]


def _event_records(more: list[str]) -> list[dict[str, Any]]:
    """The messages of the event queue as Lambda's records, followed by these bodies."""
    found = boto3.client("sqs").receive_message(
        QueueUrl=os.environ["DPP_AUTH_ERROR_QUEUE_URL"], MaxNumberOfMessages=10, MessageAttributeNames=["All"]
    )
    records = [
        {
            "body": message["Body"],
            "receiptHandle": message["ReceiptHandle"],
            "messageAttributes": {
                name: {"stringValue": value["StringValue"], "dataType": "String"}
                for name, value in message["MessageAttributes"].items()
            },
        }
        for message in found.get("Messages", [])
    ]
    records += [{"body": body, "receiptHandle": "handle"} for body in more]
    return [record | {"messageId": f"e{number}", "eventSource": "aws:sqs"} for number, record in enumerate(records)]


def _taken(variable: str) -> list[dict[str, Any]]:
    """Take the messages of this variable's queue as Lambda's records."""
    sqs, url = boto3.client("sqs"), os.environ[variable]
    found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    for message in found:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [
        {"messageId": f"w{number}", "receiptHandle": "h", "body": message["Body"], "eventSource": "aws:sqs"}
        for number, message in enumerate(found)
    ]


def _received() -> list[str]:
    sqs, url, bodies = boto3.client("sqs"), os.environ["DPP_RUN_QUEUE_URL"], []
    while found := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in found:
            bodies.append(message["Body"] + json.dumps(message.get("MessageAttributes", {})).replace("{}", ""))
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return bodies


def _invoke(function: str, event: dict[str, Any]) -> Any:
    """Call the function and return its answer; write an exception as Lambda's runtime does."""
    try:
        answer = importlib.import_module(f"{function}.handler").handler(event, lambda_context())
    except Exception as error:  # noqa: BLE001 - the runtime catches everything
        traceback.print_exception(error, chain=False)  # Lambda logs message and stack, without causes
        return type(error).__name__
    return answer


def _exploding(kind: str) -> Any:
    errors: dict[str, Exception] = {
        "library": psycopg.errors.DataError(f"Failing row contains ({SECRET})"),
        "lookup": KeyError(SECRET),
        "chained": RuntimeError(SECRET),
        "value": ValueError(SECRET),
    }

    def explode(*_args: Any, **_more: Any) -> Any:
        if kind == "chained":
            raise errors[kind] from KeyError(SECRET)
        raise errors[kind]

    return explode


if __name__ == "__main__":
    main()
