"""Secrets by reference: the environment has an ARN, Secrets Manager the value (RUN-31).

A value is fetched at its first use and kept for the container's life, since it changes once in weeks. A caller whose
value is refused fetches the current one (`renewed`). This module is not imported where URLs are given, so that the
local stack and the tests do not import boto3.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache

from dpp.platform.aws.clients import secrets_client, unavailable_as
from dpp.platform.config import ConfigurationError
from dpp.platform.errors import SecretUnavailable

type Fields = Mapping[str, str]

_MIN_AGE_SECONDS = 1.0
"""A value younger than this is not fetched again, so that a database that refuses in a loop causes no loop here."""


class Secret:
    """One secret whose value is a JSON object of strings. Thread-safe."""

    def __init__(self, arn: str, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._arn = arn
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._fields: Fields | None = None
        self._fetched_at = 0.0

    def current(self) -> Fields:
        """The last fetched value; fetches it the first time. Raises SecretUnavailable, ConfigurationError."""
        with self._lock:
            return self._fetched() if self._fields is None else self._fields

    def renewed(self) -> Fields:
        """The current value, at most a second old.

        While Secrets Manager is unavailable, the last known value is returned. Raises SecretUnavailable if there is
        none, ConfigurationError.
        """
        with self._lock:
            known = self._fields
            if known is None:
                return self._fetched()
            if abs(self._wall_clock() - self._fetched_at) < _MIN_AGE_SECONDS:
                return known
            try:
                return self._fetched()
            except SecretUnavailable:
                return known

    def _fetched(self) -> Fields:
        with unavailable_as(SecretUnavailable):
            text = secrets_client().get_secret_value(SecretId=self._arn)["SecretString"]
        self._fields = _fields_of(text)
        self._fetched_at = self._wall_clock()
        return self._fields


@cache
def shared(arn: str) -> Secret:
    """The container's one `Secret` of this ARN, so that a second connection fetches nothing again."""
    return Secret(arn)


def field(fields: Fields, name: str) -> str:
    """One field of a secret. Raises ConfigurationError, whose message has no value."""
    try:
        return fields[name]
    except KeyError:
        raise ConfigurationError(f"the secret has no field {name}") from None


def _fields_of(text: str) -> Fields:
    try:
        value = json.loads(text)
    except ValueError:
        raise ConfigurationError("the secret is not JSON; it must be a JSON object of strings") from None
    if not isinstance(value, dict):
        raise ConfigurationError("the secret is not a JSON object; it must be one, of strings")
    return {name: str(part) for name, part in value.items()}
