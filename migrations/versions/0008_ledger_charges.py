"""The sum of each tenant's charges, updated as runs end, so that an audit costs the same at any number of runs (D2)."""

from migrations.plain_sql import run_file

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add up what stands, and whatever ends from now on; writes to `runs` wait for the first."""
    run_file("0008_ledger_charges.up.sql")


def downgrade() -> None:
    """Back to sums of rows."""
    run_file("0008_ledger_charges.down.sql")
