"""Workspaces, their three writers and their events (WS-1 … WS-14)."""

from migrations.plain_sql import run_file

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create their tables."""
    run_file("0005_workspaces.up.sql")


def downgrade() -> None:
    """Drop them, with every workspace; what the provider holds of them stays."""
    run_file("0005_workspaces.down.sql")
