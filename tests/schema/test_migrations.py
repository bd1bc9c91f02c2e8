"""Migrations can be applied, reverted and applied again (RUN-29)."""

from concurrent.futures import ThreadPoolExecutor

import psycopg

from dpp_cli import migrate

_CATALOG = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
       || CASE WHEN a.attnotnull THEN ' not null' ELSE '' END
       || coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')
UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
  FROM pg_trigger WHERE NOT tgisinternal
UNION ALL
SELECT 'function', '', proname, pg_get_functiondef(oid)
  FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL
SELECT 'type', '', typname, typtype::text
  FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype IN ('e', 'd')
ORDER BY 1, 2, 3, 4
"""


def _catalog(database_url: str) -> list[tuple[str, ...]]:
    with psycopg.connect(database_url) as connection:
        return connection.execute(_CATALOG).fetchall()


def test_up_down_and_up_again_gives_the_same_schema(database_url: str) -> None:
    """RUN-29: down leaves only Alembic's own table, not even a function."""
    up = _catalog(database_url)
    tables = {row[1] for row in up if row[0] == "column"}
    assert tables >= {"tenants", "api_keys", "runs", "run_inputs", "budget_credits"}
    migrate.downgrade(database_url)
    assert {row[1] for row in _catalog(database_url)} == {"alembic_version"}
    migrate.upgrade(database_url)
    assert _catalog(database_url) == up


def test_up_again_changes_nothing(database_url: str) -> None:
    """RUN-29: as by two deployments at once, and a third later."""
    before = _catalog(database_url)
    migrate.downgrade(database_url)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(migrate.upgrade, [database_url, database_url]))
    migrate.upgrade(database_url)
    assert _catalog(database_url) == before


def test_no_column_stores_a_secret(database_url: str) -> None:
    """RUN-29: only the hash of a key is stored."""
    columns = {row[2] for row in _catalog(database_url) if row[0] == "column" and row[1] == "api_keys"}
    assert columns == {"key_id", "tenant_id", "key_hash", "label", "status", "created_at", "last_used_at"}
