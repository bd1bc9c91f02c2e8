"""Reading a request strictly: headers that must be single, a body that must be JSON and fit a model."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError

from dpp.platform.http.problem import (
    AUTH_INVALID,
    MALFORMED_REQUEST,
    PAYLOAD_TOO_LARGE,
    REQUEST_REFUSED,
    UNSUPPORTED_MEDIA_TYPE,
    VALIDATION_FAILED,
    FieldFault,
    ProblemError,
)
from dpp.platform.strict_json import JsonRefused, parse

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEvent

MAX_BODY_BYTES = 1_048_576
_MAX_FAULTS = 20
_OPTIONAL_WHITESPACE = " \t"  # what RFC 9110 lets stand around a header's value, and nothing else
IDEMPOTENCY_KEY_PATTERN = r"[\x21\x23-\x5b\x5d-\x7e]{8,64}"
"""Visible ASCII without quote and backslash (RUN-2)."""
# Bare or as a quoted string (RFC 9651).
_IDEMPOTENCY_KEY = re.compile(rf'(?P<quote>"?)(?P<key>{IDEMPOTENCY_KEY_PATTERN})(?P=quote)', re.ASCII)
# JSON is UTF-8 (RFC 8259): a body that says it is something else is refused, not misread.
_JSON_MEDIA_TYPE = re.compile(
    r'application/json(?:[ \t]*;[ \t]*charset=("?)utf-8\1)?[ \t]*;?', re.ASCII | re.IGNORECASE
)


def single_header(event: "APIGatewayProxyEvent", name: str) -> str | None:
    """The header's value, None if absent. Raises ProblemError 400 if it was sent more than once.

    API Gateway keeps every value in `multiValueHeaders`, the last one alone in `headers`.
    """
    raw = event.raw_event
    values = [
        value
        for header, found in (raw.get("multiValueHeaders") or {}).items()
        if header.lower() == name.lower()
        for value in found
    ]
    if not values:
        values = [v for header, v in (raw.get("headers") or {}).items() if header.lower() == name.lower()]
    if len(values) > 1:
        raise ProblemError(MALFORMED_REQUEST, f"{name} was sent more than once")
    return str(values[0]).strip(_OPTIONAL_WHITESPACE) if values else None


def idempotency_key(event: "APIGatewayProxyEvent") -> str:
    """The request's idempotency key. Raises ProblemError 400."""
    match = _IDEMPOTENCY_KEY.fullmatch(single_header(event, "Idempotency-Key") or "")
    if match is None:
        raise ProblemError(MALFORMED_REQUEST, "Send an Idempotency-Key of 8 to 64 visible ASCII characters.")
    return match.group("key")


def refuse_browsers(event: "APIGatewayProxyEvent") -> None:
    """Refuse what a page's script sends: a key of the platform belongs in no page. Raises ProblemError 403."""
    if single_header(event, "Origin") is not None:
        raise ProblemError(REQUEST_REFUSED, "Requests of web pages are not taken: send no Origin.")


def bearer_token(event: "APIGatewayProxyEvent") -> str:
    """The token of `Authorization: Bearer …` (RFC 6750). Raises ProblemError 401, or 400 where two were sent."""
    scheme, _, token = (single_header(event, "Authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise auth_invalid()
    return token.strip(_OPTIONAL_WHITESPACE)


def auth_invalid() -> ProblemError:
    """The one answer to every key that is missing, malformed, unknown, wrong or revoked (RUN-9)."""
    return ProblemError(
        AUTH_INVALID,
        "Send an API key as Authorization: Bearer <key>.",
        headers={"WWW-Authenticate": 'Bearer realm="dpp"'},
    )


def read_body[Model: BaseModel](
    event: "APIGatewayProxyEvent", model: type[Model], max_bytes: int = MAX_BODY_BYTES
) -> Model:
    """The body as `model`. Raises ProblemError 400, 413, 415 or 422; no message repeats what was sent."""
    text = json_text(event, max_bytes)
    try:
        return validated(model, parse(text))
    except JsonRefused as refused:
        raise ProblemError(MALFORMED_REQUEST, f"The body can't be read: {refused}.") from None


def json_text(event: "APIGatewayProxyEvent", max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """A body that says it is JSON, not parsed yet. Raises ProblemError 400, 413 or 415."""
    if not _JSON_MEDIA_TYPE.fullmatch(single_header(event, "Content-Type") or ""):
        raise ProblemError(
            UNSUPPORTED_MEDIA_TYPE, "Send the body as Content-Type: application/json, in UTF-8."
        )
    text = body_bytes(event)
    if len(text) > max_bytes:
        raise ProblemError(PAYLOAD_TOO_LARGE, f"A body may have {max_bytes} bytes.")
    return text


def validated[Model: BaseModel](model: type[Model], document: object) -> Model:
    """A document as `model`. Raises ProblemError 422."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise validation_failed(error) from None


def read_optional_body[Model: BaseModel](event: "APIGatewayProxyEvent", model: type[Model]) -> Model:
    """As `read_body`; no body at all is the model with nothing given."""
    return read_body(event, model) if event.raw_event.get("body") else model()


def read_query[Model: BaseModel](event: "APIGatewayProxyEvent", model: type[Model]) -> Model:
    """The query parameters as `model`, whose members are given as text. Raises ProblemError 400 or 422."""
    given = event.raw_event.get("multiValueQueryStringParameters") or {}
    if repeated := sorted(name for name, values in given.items() if len(values) > 1):
        # Names are a client's too: only those that the model has are repeated.
        known = [name for name in repeated if name in model.model_fields]
        raise ProblemError(MALFORMED_REQUEST, f"Sent more than once: {', '.join(known) or 'a parameter'}.")
    single = {name: values[0] for name, values in given.items() if values}
    try:
        return model.model_validate(single)
    except ValidationError as error:
        raise validation_failed(error) from None


def validation_failed(error: ValidationError, prefix: tuple[str, ...] = ()) -> ProblemError:
    """A 422 that names each place where the body breaks its schema, at most 20."""
    faults = tuple(
        FieldFault(
            pointer(prefix + tuple(str(part) for part in fault["loc"])),
            fault["msg"].removeprefix("Value error, "),  # pydantic's mark of a check of ours
        )
        for fault in error.errors(include_input=False, include_url=False)[:_MAX_FAULTS]
    )
    return ProblemError(
        VALIDATION_FAILED, "Each entry of `errors` names a place and what it needs.", faults=faults
    )


def pointer(parts: tuple[str, ...]) -> str:
    """A JSON Pointer (RFC 6901)."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def body_bytes(event: "APIGatewayProxyEvent") -> bytes:
    """The body as it was sent, byte for byte. Raises ProblemError 400."""
    raw: Mapping[str, object] = event.raw_event
    if not raw.get("body"):
        return b""
    if raw.get("isBase64Encoded"):
        # Powertools decodes to text; bytes that are no UTF-8 must reach the strict parser as they are.
        import base64  # noqa: PLC0415 - never on the usual path

        try:
            return base64.b64decode(str(raw["body"]), validate=True)
        except ValueError:
            raise ProblemError(MALFORMED_REQUEST, "The body can't be read: its base64 is broken.") from None
    return str(raw["body"]).encode("utf-8", "surrogatepass")
