"""One HTTP call each: to the API, with the key; to the storage, without it. Answers become data or a DppError.

Redirects are not followed. What is secret is kept out of every text that httpx, a log or a traceback makes: the key
is added when a request goes out, and a presigned URL shows without its signature.
"""

import json
import re
import ssl
from collections.abc import Generator, Mapping
from decimal import Decimal
from ipaddress import ip_address
from typing import Any

import httpx
from pydantic import SecretStr

from dpp_client.errors import DppError, NotReached, ResultUnavailable, UnexpectedAnswer, error_of
from dpp_client.retry import retry_after_seconds

USER_AGENT = "dpp-client/0.1"
_KEY = re.compile(r"[\x21-\x7e]+", re.ASCII)
_AMOUNT = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,6})?", re.ASCII)


class Wire:
    """The connections of one client."""

    def __init__(self, base_url: str, api_key: str, *, timeout: float, transport: httpx.BaseTransport | None) -> None:
        self.base_url = _checked_url(base_url)
        self._key = _checked_key(api_key)
        # A proxy that the environment names is no way to this machine itself.
        trust_env = not _is_loopback(httpx.URL(self.base_url).host)
        self._timeout = timeout
        self._api = httpx.Client(
            auth=_Bearer(self._key),
            headers={"User-Agent": USER_AGENT, "Accept": "application/json, application/problem+json"},
            follow_redirects=False,
            transport=transport,
            trust_env=trust_env,
        )
        self._storage = httpx.Client(
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "identity"},
            follow_redirects=False,
            transport=transport,
            trust_env=trust_env,
        )

    def close(self) -> None:
        """Hang up."""
        self._api.close()
        self._storage.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        within: float | None = None,
    ) -> tuple[dict[str, Any], Mapping[str, str]]:
        """The JSON object that the API answers, and its headers. Raises DppError.

        `within`: seconds for each step of this call (connecting, sending, a piece of the answer), where it has fewer
        than others.
        """
        request = self._api.build_request(
            method, f"{self.base_url}{path}", headers=headers, content=content, timeout=self._seconds(within)
        )
        answer = _sent(self._api, request)
        # A proxy's error page may repeat the request, the key with it.
        document = _json_object(answer.text.replace(self._key.get_secret_value(), "[api key]"))
        if answer.is_success:
            if document is None:
                raise UnexpectedAnswer("The answer is no JSON object.", status=answer.status_code)
            return document, answer.headers
        raise _refused(answer, document or {})

    def fetch(self, url: str) -> bytes:
        """Fetch a presigned URL's content. Raises ResultUnavailable."""
        try:
            request = self._storage.build_request("GET", url, timeout=self._seconds(None))
        except (httpx.InvalidURL, TypeError, ValueError):
            raise UnexpectedAnswer("The result's URL is none.") from None
        request.url = _SignedUrl(request.url)
        answer = _sent(self._storage, request)
        if answer.is_success:
            return answer.content
        if answer.status_code >= 500 or answer.status_code == 429:
            raise _refused(answer, {"detail": f"The storage answered HTTP {answer.status_code}."})
        raise ResultUnavailable(
            f"The storage refused the result's URL with HTTP {answer.status_code}.", status=answer.status_code
        )

    def _seconds(self, within: float | None) -> float:
        return self._timeout if within is None else min(self._timeout, within)


class _Bearer(httpx.Auth):
    """Adds the key to a request as it goes out."""

    def __init__(self, key: SecretStr) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response]:
        """RFC 6750."""
        request.headers["Authorization"] = f"Bearer {self._key.get_secret_value()}"
        yield request


class _SignedUrl(httpx.URL):
    """A URL whose query is sent, and not shown."""

    def __str__(self) -> str:
        return str(self.copy_with(query=None))

    def __repr__(self) -> str:
        return f"URL({str(self)!r})"


def _sent(client: httpx.Client, request: httpx.Request) -> httpx.Response:
    try:
        return client.send(request)
    except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise UnexpectedAnswer(f"The request can't be sent: {error}") from error
    except (httpx.TransportError, httpx.DecodingError) as error:
        said = str(error).rstrip(".") or type(error).__name__
        lost = NotReached(f"No answer from {request.url.host}: {said}.")
        lost.temporary = not _is_certificate(error)
        raise lost from error


def _refused(answer: httpx.Response, problem: Mapping[str, Any]) -> DppError:
    remaining = answer.headers.get("X-DPP-Budget-Remaining", "")
    return error_of(
        answer.status_code,
        problem,
        retry_after=retry_after_seconds(answer.headers.get("Retry-After"), answer.headers.get("Date")),
        budget_remaining_usd=Decimal(remaining) if _AMOUNT.fullmatch(remaining) else None,
    )


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _is_certificate(error: BaseException) -> bool:
    """Return whether the other side could not prove who it is: that doesn't pass."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def _checked_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"the API's URL is none: {error}") from None
    if url.scheme not in {"http", "https"} or not url.host:
        raise ValueError("the API's URL begins with https:// (or http://) and a host")
    if url.userinfo or url.query or url.fragment:
        raise ValueError("the API's URL has no user, query or fragment")
    return base_url.rstrip("/")


def _checked_key(api_key: str) -> SecretStr:
    """The key, if it can stand in a header. The message tells nothing of it."""
    if not _KEY.fullmatch(api_key):
        raise ValueError("an API key is visible ASCII characters, without blanks or line ends")
    return SecretStr(api_key)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
