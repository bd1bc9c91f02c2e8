"""Requests to Slack and its replies, by an incoming webhook or by `chat.postMessage`. Pure.

A webhook replies `ok` and returns no thread. `chat.postMessage` replies JSON with the channel and the `ts` of the
message, by which replies are threaded. https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks,
https://docs.slack.dev/reference/methods/chat.postMessage
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpp.lifecycle.flow.model import Message, Thread
from dpp.lifecycle.flow.ports import OutsideReply, OutsideRequest, Target

_CODE = re.compile(r"[a-z0-9_]{1,64}", re.ASCII)
_MAX_PLACE = 100
_REFUSALS_OF_CREDENTIALS = frozenset(
    {
        *("account_inactive", "invalid_auth", "not_authed", "token_expired", "token_revoked"),
        *("HTTP 401", "HTTP 403", "HTTP 404"),
    }
)
RATE_LIMITED = "ratelimited"


@dataclass(frozen=True, slots=True)
class Delivered:
    """Slack accepted the message. `thread` is None if Slack does not return it."""

    thread: Thread | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Slack did not accept the message. `code` is Slack's or our own, and quotes nothing of the message."""

    code: str
    retry_after_seconds: int | None = None


def escaped(text: str) -> str:
    """Escape text so that it contains no mention, link or entity (Slack guide, "Escaping text")."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def request_of(message: Message, thread: Thread | None, channel: str | None) -> OutsideRequest:
    """The request for a message: in its task's thread, or with the task's id in its text if no thread is known.

    A program that reads the channel can recognize a repeated message by the `message_id` in its metadata.
    """
    named = thread is None and message.task_id is not None
    content: dict[str, object] = {
        "text": escaped(f"[{message.task_id}] {message.body}" if named else message.body),
        "metadata": {"event_type": "dpp_message", "event_payload": {"message_id": message.message_id}},
    }
    if thread is not None:
        content |= {"channel": thread.channel, "thread_ts": thread.thread_ts}
    elif channel is not None:
        content["channel"] = channel
    return OutsideRequest(
        target=Target.SLACK,
        method="POST",
        headers={"content-type": "application/json; charset=utf-8"},
        body=json.dumps(content, ensure_ascii=False),
    )


def read(reply: OutsideReply) -> Delivered | Refused:
    """Read Slack's reply to a message."""
    if reply.status == 429:
        return Refused(RATE_LIMITED, _seconds(reply.headers.get("retry-after")))
    if not 200 <= reply.status < 300:
        return Refused(f"HTTP {reply.status}")
    if reply.body.strip() == "ok":
        return Delivered(None)
    content = _object(reply.body)
    if content.get("ok") is True:
        return Delivered(_thread(content.get("channel"), content.get("ts")))
    if content.get("ok") is False:
        code = content.get("error")
        return Refused(code if isinstance(code, str) and _CODE.fullmatch(code) else "an error without a code")
    return Refused("not a reply of Slack")


def refuses_credentials(reply: OutsideReply) -> bool:
    """True if Slack rejects the token or the webhook's address: its API does so with a 200, its webhooks by the
    status."""
    found = read(reply)
    return isinstance(found, Refused) and found.code in _REFUSALS_OF_CREDENTIALS


def _object(text: str) -> Mapping[str, Any]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _thread(channel: object, ts: object) -> Thread | None:
    if not (isinstance(channel, str) and isinstance(ts, str)):
        return None
    fits = 1 <= len(channel) <= _MAX_PLACE and 1 <= len(ts) <= _MAX_PLACE and "\x00" not in channel + ts
    return Thread(channel, ts) if fits else None


def _seconds(header: str | None) -> int | None:
    return int(header) if header is not None and re.fullmatch(r"[0-9]{1,6}", header, re.ASCII) else None
