"""Tenants, API keys, credits, runs and their inputs (RUN-29)."""

from migrations.plain_sql import run_file

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of the metered run."""
    run_file("0001_metered_runs.up.sql")


def downgrade() -> None:
    """Drop them, with every row."""
    run_file("0001_metered_runs.down.sql")
