"""A value derived from a secret, and derived again when it is refused, so that a rotation reaches a warm container."""

from collections.abc import Callable, Mapping


class Renewable[Value]:
    """A value that is kept until a caller that was refused with it renews it."""

    def __init__(self, value: Value, fetch: Callable[[], Value] | None = None) -> None:
        """`fetch` returns the current value; None for a value that never changes."""
        self.current = value
        self._fetch = fetch

    def renew(self) -> bool:
        """Fetch the current value. Returns True if it has changed. Raises what `fetch` raises."""
        before = self.current
        if self._fetch is not None:
            self.current = self._fetch()
        return self.current != before


def of_secret[Value](arn: str | None, build: Callable[[Mapping[str, str]], Value]) -> Renewable[Value]:
    """Build a value from the fields of a secret, fetched now; from no fields if `arn` is None.

    Raises SecretUnavailable, ConfigurationError.
    """
    if arn is None:
        return Renewable(build({}))
    from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, not needed without a secret

    secret = secrets.shared(arn)
    return Renewable(build(secret.current()), lambda: build(secret.renewed()))
