"""Alembic's environment: plain SQL against the database that the caller connected (`migrations.runner`)."""

from alembic import context
from sqlalchemy import Connection


def run() -> None:
    """Run the migrations on the connection given by the caller, all of them in one transaction."""
    connection = context.config.attributes["connection"]
    if not isinstance(connection, Connection):
        raise TypeError("migrations are run through migrations.runner, which passes its connection")
    context.configure(connection=connection, target_metadata=None, transaction_per_migration=False)
    with context.begin_transaction():
        context.run_migrations()


run()
