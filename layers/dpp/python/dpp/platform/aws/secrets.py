"""Secrets by reference: the environment holds an ARN, Secrets Manager the value (RUN-31).

A value is fetched at its first use and kept for the container's life, since it changes once in weeks; whoever
finds it refused asks for the present one (`renewed`). Nothing here is imported where URLs are given outright, so
that the local stack and the tests pay for no boto3.
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

_WORTH_ASKING_AGAIN_SECONDS = 1.0
"""A rotation replaces a value once in days; a database that refuses in a loop must not become a loop here."""


class Secret:
    """One secret whose value is a JSON object of strings. Safe for threads."""

    def __init__(self, arn: str, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._arn = arn
        self._wall_clock = wall_clock
        self._lock = threading.Lock()
        self._fields: Fields | None = None
        self._fetched_at = 0.0

    def current(self) -> Fields:
        """The value as last fetched; fetched now if never. Raises SecretUnavailable, ConfigurationError."""
        with self._lock:
            return self._fetched() if self._fields is None else self._fields

    def renewed(self) -> Fields:
        """The value as Secrets Manager has it now, or as it had it within the last second.

        While Secrets Manager doesn't answer, the last known value is as good as any. Raises
        SecretUnavailable where there is none, ConfigurationError.
        """
        with self._lock:
            known = self._fields
            if known is None:
                return self._fetched()
            if abs(self._wall_clock() - self._fetched_at) < _WORTH_ASKING_AGAIN_SECONDS:
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
    """The container's one `Secret` of this ARN: a second connection asks for nothing again."""
    return Secret(arn)


def field(fields: Fields, name: str) -> str:
    """One string of a secret. Raises ConfigurationError, which shows no value."""
    try:
        return fields[name]
    except KeyError:
        raise ConfigurationError(f"the secret has no field {name}") from None


def _fields_of(text: str) -> Fields:
    try:
        value = json.loads(text)
    except ValueError:
        raise ConfigurationError("the secret is no JSON") from None
    if not isinstance(value, dict):
        raise ConfigurationError("the secret is no JSON object")
    return {name: str(part) for name, part in value.items()}
