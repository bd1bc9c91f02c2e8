"""What is made of a secret, and made anew where it is refused: so a rotation reaches a warm container."""

from collections.abc import Callable, Mapping


class Renewable[Value]:
    """A value that is kept until somebody who was refused with it asks whether there is another."""

    def __init__(self, value: Value, fetch: Callable[[], Value] | None = None) -> None:
        """`fetch`: the value as it is now; None for one that never changes."""
        self.current = value
        self._fetch = fetch

    def renew(self) -> bool:
        """Take the value as it is now; whether it is another. Raises what `fetch` raises."""
        before = self.current
        if self._fetch is not None:
            self.current = self._fetch()
        return self.current != before


def of_secret[Value](arn: str | None, made: Callable[[Mapping[str, str]], Value]) -> Renewable[Value]:
    """What is made of the fields of a secret, fetched now; of no fields where none is named.

    Raises SecretUnavailable, ConfigurationError.
    """
    if arn is None:
        return Renewable(made({}))
    from dpp.platform.aws import secrets  # noqa: PLC0415 - boto3, which what is given outright does without

    secret = secrets.shared(arn)
    return Renewable(made(secret.current()), lambda: made(secret.renewed()))
