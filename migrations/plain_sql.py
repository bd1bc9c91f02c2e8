"""Runs one migration file: the SQL stands beside the revisions, where a database engineer reads it."""

from pathlib import Path

from alembic import op

_SQL = Path(__file__).parent / "sql"


def run_file(name: str) -> None:
    """Execute `sql/<name>` as one simple-protocol script on Alembic's connection."""
    connection = op.get_bind()
    raw = connection.connection.driver_connection
    if raw is None:
        raise RuntimeError("migrations need a live connection; offline SQL generation is not offered")
    raw.execute((_SQL / name).read_text(encoding="utf-8"))
