"""Sends HTTP requests to GitHub, Jira and Slack with their credentials, from the function outside the VPC (PLAT-2).

Callers never see a credential and can't choose the host. The size of a reply is limited, and no error quotes it.
"""

import base64
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Self, assert_never

import httpx

from dpp.lifecycle.config import CredentialSettings
from dpp.lifecycle.flow import slack
from dpp.lifecycle.flow.errors import LifecycleError, OutsideUnavailable
from dpp.lifecycle.flow.ports import (
    MAX_REPLY_BYTES,
    OUTCOME_HEADER,
    OutsideOutcome,
    OutsideReply,
    OutsideRequest,
    Target,
)
from dpp.platform.aws.renewable import Renewable

DEADLINE_SECONDS = 15.0
"""The longest duration of a request: connecting, sending and waiting for the reply, or a slow reply."""
_TIMEOUT = httpx.Timeout(8.0, connect=3.0, write=3.0)
_DRIP_SECONDS = DEADLINE_SECONDS - 8.0
"""The longest duration of a reply; httpx's timeout is per read."""
_MAX_ANSWER_BYTES = 5_500_000
"""The limit of the reply as JSON, which is longer by its escapes; Lambda returns at most 6 MB."""
_SENT = frozenset({"accept", "content-type", "if-none-match", "x-github-api-version"})
_HANDED_ON = frozenset(
    {
        "content-type",
        "etag",
        "link",
        "retry-after",
        "x-poll-interval",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    }
)
_AGENT = {"user-agent": "dpp"}
_ODD_PATH = re.compile(r"[^!-~]|[\\#]|%2f|%5c|(?:^|/)(?:\.|%2e){1,2}(?:/|$)", re.IGNORECASE)


class PathRefused(LifecycleError):
    """The path must stay below the base URL of its target."""


@dataclass(frozen=True, slots=True)
class AccessPoint:
    """The base URL of a target and the header with its credentials."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Credentials:
    """The access points by target; a target without an address or a credential has none."""

    access_points: Mapping[Target, AccessPoint]

    @classmethod
    def of(cls, settings: CredentialSettings, secret: Mapping[str, str]) -> Self:
        """Read the settings; the secret is used where a setting is missing."""

        def setting(value: str | None, name: str) -> str | None:
            return value or secret.get(name) or None

        access_points: dict[Target, AccessPoint] = {}
        if github := setting(settings.github_token, "github_token"):
            access_points[Target.GITHUB] = AccessPoint(settings.github_url, {"authorization": f"Bearer {github}"})
        user, token = setting(settings.jira_user, "jira_user"), setting(settings.jira_token, "jira_token")
        if settings.jira_url and user and token:
            basic = base64.b64encode(f"{user}:{token}".encode()).decode()
            access_points[Target.JIRA] = AccessPoint(settings.jira_url, {"authorization": f"Basic {basic}"})
        if slack_url := setting(settings.slack_url, "slack_url"):
            slack = setting(settings.slack_token, "slack_token")
            access_points[Target.SLACK] = AccessPoint(slack_url, {"authorization": f"Bearer {slack}"} if slack else {})
        return cls(access_points)


class Egress:
    """The `Outside` port by HTTP."""

    def __init__(
        self,
        credentials: Renewable[Credentials],
        transport: httpx.BaseTransport | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._credentials = credentials
        self._monotonic = monotonic
        # trust_env: a proxy or a .netrc of the environment could otherwise read or replace the credentials.
        self._client = httpx.Client(timeout=_TIMEOUT, follow_redirects=False, trust_env=False, transport=transport)

    def ask(self, request: OutsideRequest) -> OutsideReply:
        """Send one request. Raises PathRefused, and OutsideUnavailable if no complete reply was received.

        A request whose credentials were rejected had no effect; it is tried again with renewed credentials.
        """
        reply = self._try(request)
        if _is_refused(request, reply) and self._credentials.renew():
            return self._try(request)
        return reply

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _try(self, request: OutsideRequest) -> OutsideReply:
        access_point = self._credentials.current.access_points.get(request.target)
        if access_point is None:
            return _own(501, OutsideOutcome.NOT_CONFIGURED)
        until = self._monotonic() + _DRIP_SECONDS
        try:
            with self._client.stream(
                request.method,
                address(request.target, access_point.url, request.path),
                headers={**_headers(request), **_AGENT, **access_point.headers},
                content=request.body.encode() if request.body is not None else None,
            ) as response:
                body = self._read(response, until)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, UnicodeError) as error:
            raise OutsideUnavailable(type(error).__name__) from None
        if body is None:
            return _own(502, OutsideOutcome.REPLY_TOO_LARGE)
        headers = {name: value for name, value in response.headers.items() if name in _HANDED_ON}
        return OutsideReply(status=response.status_code, headers=headers, body=body)

    def _read(self, response: httpx.Response, until: float) -> str | None:
        """The body as text, None if it is too large. Raises OutsideUnavailable."""
        read = bytearray()
        for chunk in response.iter_bytes():
            read += chunk
            if len(read) > MAX_REPLY_BYTES:
                return None
            if self._monotonic() > until:
                raise OutsideUnavailable("no complete reply in time")
        text = read.decode("utf-8", "replace")
        return text if len(json.dumps(text, ensure_ascii=False).encode()) <= _MAX_ANSWER_BYTES else None


def address(target: Target, base: str, path: str) -> httpx.URL:
    """The base URL followed by the path. Raises PathRefused if the path leads elsewhere."""
    match target:
        case Target.SLACK:
            if path:
                raise PathRefused
            return httpx.URL(base)
        case Target.GITHUB | Target.JIRA:
            if not path.startswith("/") or path.startswith("//") or _ODD_PATH.search(path.partition("?")[0]):
                raise PathRefused
        case _:
            assert_never(target)
    root, found = httpx.URL(base.rstrip("/")), httpx.URL(base.rstrip("/") + path)
    within = root.raw_path.partition(b"?")[0].rstrip(b"/") + b"/"
    if (found.scheme, found.netloc, found.userinfo) != (root.scheme, root.netloc, root.userinfo):
        raise PathRefused
    if not found.raw_path.startswith(within):
        raise PathRefused
    return found


def _is_refused(request: OutsideRequest, reply: OutsideReply) -> bool:
    """True if the credentials were rejected."""
    return slack.refuses_credentials(reply) if request.target is Target.SLACK else reply.status == 401


def _headers(request: OutsideRequest) -> dict[str, str]:
    """The headers that a caller may set."""
    lowered = {name.lower(): value for name, value in request.headers.items()}
    return {name: value for name, value in lowered.items() if name in _SENT}


def _own(status: int, outcome: OutsideOutcome) -> OutsideReply:
    return OutsideReply(status=status, headers={OUTCOME_HEADER: outcome})
