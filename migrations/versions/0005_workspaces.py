"""Workspaces, their three writers and their events (WS-1 … WS-14)."""

from migrations.plain_sql import steps

revision = "0005"
down_revision = "0004"
upgrade, downgrade = steps(__file__)
