"""The steps of a revision: the SQL stands beside the revisions, where a database engineer reads it."""

from collections.abc import Callable
from pathlib import Path

from alembic import op

_SQL = Path(__file__).parent / "sql"


def steps(revision_file: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """`upgrade` and `downgrade` of the revision in `revision_file`: `sql/<its name>.up.sql` and `.down.sql`."""
    name = Path(revision_file).stem
    return lambda: _run(f"{name}.up.sql"), lambda: _run(f"{name}.down.sql")


def _run(file_name: str) -> None:
    """Execute one file as one simple-protocol script on Alembic's connection."""
    raw = op.get_bind().connection.driver_connection
    if raw is None:
        raise RuntimeError("migrations need a live connection; offline SQL generation is not offered")
    raw.execute((_SQL / file_name).read_text(encoding="utf-8"))
