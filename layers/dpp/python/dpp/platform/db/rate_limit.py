"""The state of a tenant's token bucket, and the rate limit headers (RUN-14)."""

from dataclasses import dataclass

RATE_LIMIT_FUNCTIONS = ("dpp.platform.db.lua", "rate_limit.lua")
RETRY_AFTER_SECONDS = 30
_PARTS_A_TOKEN = 60_000


@dataclass(frozen=True, slots=True)
class RateState:
    """A tenant's bucket after one request: tokens a minute, whole tokens left, seconds until it is full."""

    limit: int
    remaining: int
    reset_seconds: int

    def headers(self) -> dict[str, str]:
        """`X-RateLimit-*` (reset in seconds from now) and the IETF draft's `RateLimit` and its policy."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(self.remaining),
            "X-RateLimit-Reset": str(self.reset_seconds),
            "RateLimit-Policy": f'"tenant";q={self.limit};w=60',
            "RateLimit": f'"tenant";r={self.remaining};t={self.reset_seconds}',
        }


def requests_left(parts: str | None, at_ms: str | None, limit: int, now_ms: int) -> int | None:
    """The whole tokens that a bucket written by `rate_limit.lua` has now; None without a bucket. Takes no token."""
    if parts is None or at_ms is None:
        return None
    refilled = max(0, now_ms - int(at_ms)) * limit
    return min(limit * _PARTS_A_TOKEN, int(parts) + refilled) // _PARTS_A_TOKEN
