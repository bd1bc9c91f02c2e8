"""A ledger in Postgres alone for bench/budget, by pgledger's method: written from its idea, not from its code.

Accounts have a balance and a version. A transfer locks both accounts in the order of their ids, moves the amount, and
records the transfer and an entry for each account with its balance before and after. A reservation is a transfer from
the available to the reserved account. A settlement is two: back to available, and to spent (in this order, because the
other one would lock out of order and deadlock). Each is one function call and one transaction, flushed. All accounts
are the tenant's own, so two tenants never wait for each other.
"""

from uuid import uuid4

import psycopg

from bench.budget.sides import RESERVED_USD_MICROS, Side

_SCHEMA = """
CREATE TABLE accounts (
  account_id text PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, version bigint NOT NULL DEFAULT 0,
  may_be_negative boolean NOT NULL DEFAULT false, CHECK (may_be_negative OR balance >= 0)
) WITH (fillfactor = 50);
CREATE TABLE transfers (
  transfer_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, from_account text NOT NULL REFERENCES accounts,
  to_account text NOT NULL REFERENCES accounts, amount bigint NOT NULL CHECK (amount > 0), run_id uuid,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE entries (
  account_id text NOT NULL REFERENCES accounts, transfer_id bigint NOT NULL REFERENCES transfers,
  amount bigint NOT NULL, balance_before bigint NOT NULL, balance_after bigint NOT NULL, version bigint NOT NULL,
  PRIMARY KEY (account_id, version)
);

CREATE FUNCTION transfer(source text, target text, micros bigint, run uuid) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  transferred bigint;
  source_now accounts;
  target_now accounts;
BEGIN
  PERFORM 1 FROM accounts WHERE account_id IN (source, target) ORDER BY account_id FOR UPDATE;
  UPDATE accounts SET balance = balance - micros, version = version + 1 WHERE account_id = source
  RETURNING * INTO source_now;
  UPDATE accounts SET balance = balance + micros, version = version + 1 WHERE account_id = target
  RETURNING * INTO target_now;
  INSERT INTO transfers (from_account, to_account, amount, run_id) VALUES (source, target, micros, run)
  RETURNING transfer_id INTO transferred;
  INSERT INTO entries VALUES
    (source, transferred, -micros, source_now.balance + micros, source_now.balance, source_now.version),
    (target, transferred, micros, target_now.balance - micros, target_now.balance, target_now.version);
  RETURN source_now.balance;
END $$;

CREATE FUNCTION reserve(tenant text, micros bigint, run uuid) RETURNS bigint LANGUAGE sql AS $$
  SELECT transfer(tenant || ':available', tenant || ':reserved', micros, run)
$$;

CREATE FUNCTION settle(tenant text, reserved bigint, charged bigint, run uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF reserved > charged THEN
    PERFORM transfer(tenant || ':reserved', tenant || ':available', reserved - charged, run);
  END IF;
  PERFORM transfer(tenant || ':reserved', tenant || ':spent', charged, run);
END $$;
"""


def prepare(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_SCHEMA)


class PostgresLedger(Side):
    """A caller: one connection, statements prepared."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True, prepare_threshold=0)

    def fund(self, tenant: str, micros: int) -> None:
        with self._connection.transaction():
            for name in ("available", "reserved", "spent", "outside"):
                self._connection.execute(
                    "INSERT INTO accounts (account_id, may_be_negative) VALUES (%s, %s)",
                    (f"{tenant}:{name}", name == "outside"),
                )
            self._connection.execute(
                "SELECT transfer(%s, %s, %s, NULL)", (f"{tenant}:outside", f"{tenant}:available", micros)
            )

    def reserve(self, tenant: str) -> str | None:
        run = str(uuid4())
        try:
            self._connection.execute("SELECT reserve(%s, %s, %s::uuid)", (tenant, RESERVED_USD_MICROS, run)).fetchone()
        except psycopg.errors.CheckViolation:
            return None
        return run

    def settle(self, tenant: str, run: str, micros: int) -> None:
        params = (tenant, RESERVED_USD_MICROS, micros, run)
        self._connection.execute("SELECT settle(%s, %s, %s, %s::uuid)", params)

    def left(self, tenant: str) -> int:
        """Also checks that nothing is reserved and that the tenant's accounts sum up to zero."""
        rows = self._connection.execute(
            "SELECT split_part(account_id, ':', 2), balance FROM accounts WHERE account_id LIKE %s", (f"{tenant}:%",)
        ).fetchall()
        balances = {str(name): int(balance) for name, balance in rows}
        assert balances["reserved"] == sum(balances.values()) == 0, balances
        return balances["available"]
