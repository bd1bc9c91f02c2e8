"""Names of the Redis keys (RUN-7), the only code that distinguishes cluster mode (D11).

On one node the names are exactly those that the contract locks. On a cluster, all keys of a script must share a slot,
so each key of a tenant carries the hash tag `{tenant}`: `reserve:{t_acme}:<run>`.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeySpace:
    """Builds key names. Tenant ids are `[A-Za-z0-9_-]` only, so none can forge a hash tag."""

    cluster: bool = False

    def balance(self, tenant_id: str) -> str:
        """String: micros that the tenant may still reserve."""
        return f"budget:{self._tag(tenant_id)}:balance_usd_micros"

    def reservation(self, tenant_id: str, run_id: str) -> str:
        """Hash, 1 hour: tenant_id, reserved_usd_micros, created_at_ms."""
        return self._of_run("reserve", tenant_id, run_id)

    def reservation_amounts(self, tenant_id: str) -> str:
        """Hash run -> micros of every open reservation; outlives `reservation` (D2)."""
        return f"reservations:{self._tag(tenant_id)}:usd_micros"

    def reservation_ages(self, tenant_id: str) -> str:
        """Sorted set of the same runs by the time of their reservation, in ms of Redis's clock (D2)."""
        return f"reservations:{self._tag(tenant_id)}:reserved_at_ms"

    def receipt(self, tenant_id: str, run_id: str) -> str:
        """Hash, 7 days: what a settle or refund did, so that a repetition moves nothing (D2)."""
        return self._of_run("receipt", tenant_id, run_id)

    def credits_applied(self, tenant_id: str) -> str:
        """Set of the credits that the balance includes."""
        return f"credits:{self._tag(tenant_id)}:applied"

    def idempotency(self, tenant_id: str, key: str) -> str:
        """Hash, 30 days: run_id, payload_hash, created_at_ms (RUN-4)."""
        return f"idem:{self._tag(tenant_id)}:{key}"

    def idempotency_lock(self, tenant_id: str, key: str) -> str:
        """String, 5 seconds: the run that a submit with this key is creating (RUN-4)."""
        return f"idem_lock:{self._tag(tenant_id)}:{key}"

    def lease(self, tenant_id: str, run_id: str) -> str:
        """String, 120 seconds: the worker's lease token (RUN-16)."""
        return self._of_run("lease", tenant_id, run_id)

    def rate_limit(self, tenant_id: str) -> str:
        """Hash: the tenant's token bucket (RUN-14)."""
        return f"rate:{self._tag(tenant_id)}"

    def _tag(self, tenant_id: str) -> str:
        return f"{{{tenant_id}}}" if self.cluster else tenant_id

    def _of_run(self, name: str, tenant_id: str, run_id: str) -> str:
        return f"{name}:{{{tenant_id}}}:{run_id}" if self.cluster else f"{name}:{run_id}"
