"""The findings of the continuous ledger check, every rebuild of a balance, and each tenant's charges (D2)."""

from migrations.plain_sql import steps

revision = "0002"
down_revision = "0001"
upgrade, downgrade = steps(__file__)
