"""Events, tasks, messages and their objects; the chamberlain's role, runs and reports (LIFE-1 … LIFE-13)."""

from migrations.plain_sql import steps

revision = "0006"
down_revision = "0005"
upgrade, downgrade = steps(__file__)
