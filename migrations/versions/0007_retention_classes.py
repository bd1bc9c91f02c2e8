"""The chamberlain's rights to delete in each context; charges of deleted runs carried; events by week (LIFE-8, D2)."""

from migrations.plain_sql import run_file

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Guard what may go and grant it; carry charges; divide `workspace_events` into weeks, its rows kept."""
    run_file("0007_retention_classes.up.sql")


def downgrade() -> None:
    """Take it back, the rows of `workspace_events` kept; refused where a deleted run was charged (D2)."""
    run_file("0007_retention_classes.down.sql")
