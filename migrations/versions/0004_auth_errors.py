"""Authentication errors, their outbox and ledger, clusters, policies and decisions (AUTH-1 … AUTH-11)."""

from migrations.plain_sql import run_file

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create their tables."""
    run_file("0004_auth_errors.up.sql")


def downgrade() -> None:
    """Drop them, with every error, event and decision."""
    run_file("0004_auth_errors.down.sql")
