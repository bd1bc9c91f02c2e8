"""Bearer keys of one scope: `<prefix>_<key id>_<secret>`; only the secret's SHA-256 is stored (RUN-2, TIX-5).

The id is the row's primary key; the secret, 256 random bits, is compared in constant time.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from uuid import UUID, uuid4

_NO_KEY = UUID(int=0)
_NO_HASH = "0" * 64


@dataclass(frozen=True, slots=True)
class MintedKey:
    """A new key; `token` is shown to its owner once and never stored."""

    key_id: UUID
    secret_sha256: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """The key in a request; for a malformed token, an id that no key has."""

    key_id: UUID
    secret: str = field(repr=False)

    def matches(self, secret_sha256: str | None) -> bool:
        """True if the secret has this hash. Takes as long for a key that does not exist (None)."""
        same = hmac.compare_digest(secret_sha256 or _NO_HASH, _hash(self.secret))
        return same and secret_sha256 is not None


class KeyScope:
    """The format of the keys of one scope. A key of one scope is malformed in every other."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._pattern = re.compile(rf"{prefix}_([0-9a-f]{{32}})_([0-9a-f]{{64}})", re.ASCII)

    def mint(self) -> MintedKey:
        """Create a key with its hash."""
        key_id, secret = uuid4(), secrets.token_hex(32)
        return MintedKey(key_id, _hash(secret), f"{self._prefix}_{key_id.hex}_{secret}")

    def presented(self, token: str) -> PresentedKey:
        """Split a token into its parts."""
        match = self._pattern.fullmatch(token)
        return PresentedKey(UUID(match.group(1)), match.group(2)) if match else PresentedKey(_NO_KEY, "")

    def masked(self, text: str) -> str:
        """`text` with the secrets of this scope's keys masked."""
        return self._pattern.sub(rf"{self._prefix}_\1_***", text)


TENANT = KeyScope("dpp")
OPERATOR = KeyScope("dppop")


def without_secrets(text: str) -> str:
    """`text` with the secrets of all keys masked: an operator may paste a key where its id is expected."""
    return OPERATOR.masked(TENANT.masked(text))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
