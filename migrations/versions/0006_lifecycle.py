"""Events, tasks, messages and their objects; the chamberlain's role, runs and reports (LIFE-1 … LIFE-13)."""

from migrations.plain_sql import run_file

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create their tables, and the role that may delete."""
    run_file("0006_lifecycle.up.sql")


def downgrade() -> None:
    """Drop them; the objects that they named stay, and the role, which other databases of the server may use."""
    run_file("0006_lifecycle.down.sql")
