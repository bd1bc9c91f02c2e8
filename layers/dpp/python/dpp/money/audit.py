"""The ledger identity (D2): balance = credits − charges of ended runs − open reservations."""

from dataclasses import dataclass

from dpp.money.books import QUERIES
from dpp.money.ledger import Ledger
from dpp.platform.db.postgres import Connection


@dataclass(frozen=True, slots=True)
class LedgerPosition:
    """A tenant's ledger at one moment, in micros. `balance_usd_micros` is Redis's, None if it holds none."""

    tenant_id: str
    credits_usd_micros: int
    charges_usd_micros: int
    open_reservations_usd_micros: int
    balance_usd_micros: int | None

    @property
    def expected_usd_micros(self) -> int:
        """The balance that Postgres alone requires."""
        return self.credits_usd_micros - self.charges_usd_micros - self.open_reservations_usd_micros

    @property
    def drift_usd_micros(self) -> int:
        """Balance minus expected balance; zero when nothing is under way, since work under way counts as drift here."""
        return (self.balance_usd_micros or 0) - self.expected_usd_micros

    @property
    def balanced(self) -> bool:
        """True if the identity holds."""
        return self.drift_usd_micros == 0


def audit_tenant(connection: Connection, ledger: Ledger, tenant_id: str) -> LedgerPosition:
    """Read a tenant's position. Raises LookupError for an unknown tenant."""
    row = connection.execute(QUERIES["position"], {"tenant_id": tenant_id}).fetchone()
    if row is None:
        raise LookupError(f"no tenant {tenant_id}")
    credits_, charges, reserved = (int(amount) for amount in row)
    return LedgerPosition(tenant_id, credits_, charges, reserved, ledger.balance(tenant_id))
