"""Databases with the current schema, copied from the session's template."""

from uuid import uuid4

import psycopg
from psycopg import sql

from dpp_cli.local.servers import PostgresServer


def new_database(server: PostgresServer) -> str:
    """The URL of a new database with the schema and no rows; it lasts as long as its server."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template_dpp").format(sql.Identifier(name)))
    return server.url(name)
