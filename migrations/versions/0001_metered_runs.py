"""Tenants, API keys, credits, runs and their inputs (RUN-29)."""

from migrations.plain_sql import steps

revision = "0001"
down_revision = None
upgrade, downgrade = steps(__file__)
