"""Authentication errors, their outbox and ledger, clusters, policies and decisions (AUTH-1 … AUTH-11)."""

from migrations.plain_sql import steps

revision = "0004"
down_revision = "0003"
upgrade, downgrade = steps(__file__)
