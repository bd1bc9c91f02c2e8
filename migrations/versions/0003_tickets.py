"""Operators' keys, tickets, the emergency stop, the ops cycle, and the switch of execution (TIX-1 … TIX-6)."""

from migrations.plain_sql import run_file

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create their tables."""
    run_file("0003_tickets.up.sql")


def downgrade() -> None:
    """Drop them, with every ticket and the record of all transitions."""
    run_file("0003_tickets.down.sql")
