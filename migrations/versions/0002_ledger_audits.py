"""The findings of the continuous ledger check, and every rebuild of a balance (D2)."""

from migrations.plain_sql import run_file

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the two tables."""
    run_file("0002_ledger_audits.up.sql")


def downgrade() -> None:
    """Drop them; the record of past rebuilds is lost."""
    run_file("0002_ledger_audits.down.sql")
