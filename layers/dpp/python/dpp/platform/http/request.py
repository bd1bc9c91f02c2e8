"""Reads a request strictly: headers that may occur once, a body that must be JSON and match a model."""

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
VALIDATION_DETAIL = "Each entry of `errors` names a place and what it needs."
_MAX_FAULTS = 20
_OPTIONAL_WHITESPACE = " \t"  # the only characters that RFC 9110 allows around a header's value
IDEMPOTENCY_KEY_PATTERN = r"[\x21\x23-\x5b\x5d-\x7e]{8,64}"
"""Visible ASCII without quote and backslash (RUN-2)."""
# Bare or as a quoted string (RFC 9651).
_IDEMPOTENCY_KEY = re.compile(rf'(?P<quote>"?)(?P<key>{IDEMPOTENCY_KEY_PATTERN})(?P=quote)', re.ASCII)
# JSON is UTF-8 (RFC 8259): a body declared in another charset is refused, not misread.
_JSON_MEDIA_TYPE = re.compile(
    r'application/json(?:[ \t]*;[ \t]*charset=("?)utf-8\1)?[ \t]*;?', re.ASCII | re.IGNORECASE
)


def single_header(event: "APIGatewayProxyEvent", name: str) -> str | None:
    """The header's value, None if absent. Raises ProblemError 400 if it was sent more than once.

    API Gateway passes all values in `multiValueHeaders`, but only the last one in `headers`.
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
    """Refuse requests of scripts in web pages, which must not contain a key. Raises ProblemError 403."""
    if single_header(event, "Origin") is not None:
        raise ProblemError(REQUEST_REFUSED, "Requests from web pages are not accepted: send no Origin.")


def bearer_token(event: "APIGatewayProxyEvent") -> str:
    """The token of `Authorization: Bearer …` (RFC 6750). Raises ProblemError 401, or 400 where two were sent."""
    scheme, _, token = (single_header(event, "Authorization") or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise auth_invalid()
    return token.strip(_OPTIONAL_WHITESPACE)


def auth_invalid() -> ProblemError:
    """The same answer to a missing, malformed, unknown, wrong or revoked key (RUN-9)."""
    return ProblemError(
        AUTH_INVALID,
        "Send an API key as Authorization: Bearer <key>.",
        headers={"WWW-Authenticate": 'Bearer realm="dpp"'},
    )


def read_body[Model: BaseModel](
    event: "APIGatewayProxyEvent", model: type[Model], max_bytes: int = MAX_BODY_BYTES
) -> Model:
    """Parse the body as `model`. Raises ProblemError 400, 413, 415 or 422; no message repeats what was sent."""
    text = json_text(event, max_bytes)
    try:
        return validated(model, parse(text))
    except JsonRefused as refused:
        raise ProblemError(MALFORMED_REQUEST, f"The body can't be read: {refused}.") from None


def json_text(event: "APIGatewayProxyEvent", max_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The unparsed body of a request with a JSON media type. Raises ProblemError 400, 413 or 415."""
    if not _JSON_MEDIA_TYPE.fullmatch(single_header(event, "Content-Type") or ""):
        raise ProblemError(UNSUPPORTED_MEDIA_TYPE, "Send the body as Content-Type: application/json, in UTF-8.")
    text = body_bytes(event)
    if len(text) > max_bytes:
        raise ProblemError(PAYLOAD_TOO_LARGE, f"A body may have at most {max_bytes} bytes.")
    return text


def validated[Model: BaseModel](model: type[Model], document: object) -> Model:
    """Validate a document as `model`. Raises ProblemError 422."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise validation_failed(error) from None


def read_optional_body[Model: BaseModel](event: "APIGatewayProxyEvent", model: type[Model]) -> Model:
    """As `read_body`; a request without a body gives the model's defaults."""
    return read_body(event, model) if event.raw_event.get("body") else model()


def read_query[Model: BaseModel](event: "APIGatewayProxyEvent", model: type[Model]) -> Model:
    """Parse the query parameters as `model`, whose fields accept text. Raises ProblemError 400 or 422."""
    given = event.raw_event.get("multiValueQueryStringParameters") or {}
    if repeated := sorted(name for name, values in given.items() if len(values) > 1):
        # A parameter's name is client data, too: only names of the model are quoted.
        known = [name for name in repeated if name in model.model_fields]
        raise ProblemError(MALFORMED_REQUEST, f"Sent more than once: {', '.join(known) or 'a parameter'}.")
    single = {name: values[0] for name, values in given.items() if values}
    try:
        return model.model_validate(single)
    except ValidationError as error:
        raise validation_failed(error) from None


def validation_failed(error: ValidationError, prefix: tuple[str, ...] = ()) -> ProblemError:
    """A 422 that lists where the body violates its schema, at most 20 places."""
    faults = tuple(
        FieldFault(
            pointer(prefix + tuple(str(part) for part in fault["loc"])),
            fault["msg"].removeprefix("Value error, "),  # pydantic's prefix for validators of models
        )
        for fault in error.errors(include_input=False, include_url=False)[:_MAX_FAULTS]
    )
    return ProblemError(VALIDATION_FAILED, VALIDATION_DETAIL, faults=faults)


def pointer(parts: tuple[str, ...]) -> str:
    """Build a JSON Pointer (RFC 6901)."""
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def body_bytes(event: "APIGatewayProxyEvent") -> bytes:
    """The body's bytes. Raises ProblemError 400."""
    raw: Mapping[str, object] = event.raw_event
    if not raw.get("body"):
        return b""
    if raw.get("isBase64Encoded"):
        # Powertools decodes to text; bytes that are not UTF-8 must reach the strict parser unchanged.
        import base64  # noqa: PLC0415 - rarely needed

        try:
            return base64.b64decode(str(raw["body"]), validate=True)
        except ValueError:
            raise ProblemError(MALFORMED_REQUEST, "The body can't be read: its base64 is invalid.") from None
    return str(raw["body"]).encode("utf-8", "surrogatepass")
