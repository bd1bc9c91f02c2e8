"""Operators' keys, tickets, the emergency stop, the ops cycle, and the switch of execution (TIX-1 … TIX-6)."""

from migrations.plain_sql import steps

revision = "0003"
down_revision = "0002"
upgrade, downgrade = steps(__file__)
