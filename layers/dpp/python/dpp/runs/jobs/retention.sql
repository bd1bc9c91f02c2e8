-- name: due_tombstones
-- Tombstones of a certain age (D7), counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM runs WHERE status = 'EXPIRED' AND updated_at < %(before)s ORDER BY updated_at LIMIT %(limit)s) AS due

-- name: delete_tombstones
-- The oldest of them, with what is left of their inputs. What they were charged goes to `ledger_carried` in the same
-- statement, by the table's own trigger (D2).
WITH due AS (
  SELECT run_id, updated_at FROM runs
  WHERE status = 'EXPIRED' AND updated_at < %(before)s
    AND (updated_at, run_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'),
      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY updated_at, run_id LIMIT %(limit)s
), gone AS (
  DELETE FROM runs r USING due WHERE r.run_id = due.run_id AND r.status = 'EXPIRED' AND r.updated_at = due.updated_at
  RETURNING pg_column_size(r.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT updated_at FROM due ORDER BY updated_at DESC, run_id DESC LIMIT 1) AS last_time,
       (SELECT run_id::text FROM due ORDER BY updated_at DESC, run_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_tombstones
-- The table whole, since tombstones lie among the other runs; a run becomes one after its 30 days.
SELECT whole.rows, whole.bytes, (SELECT min(updated_at) FROM runs WHERE status = 'EXPIRED') AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('runs') AS rows, bytes_of('runs') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM runs WHERE status = 'EXPIRED' AND updated_at > coalesce(%(now)s, now()) - interval '1 day'
      AND updated_at <= coalesce(%(now)s, now()) ORDER BY updated_at LIMIT 1000000) AS bounded) AS lately
