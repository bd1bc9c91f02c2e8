-- name: due_outbox
-- Events that the consumer's ledger came to an end with a certain time ago, counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM outbox_message WHERE handled_at < %(before)s ORDER BY handled_at LIMIT %(limit)s) AS due

-- name: delete_outbox
-- The oldest of them: row and event go together, where it is DONE, which nothing changes any more. What is DEAD stays
-- until an operator has looked (AUTH-5).
WITH due AS (
  SELECT outbox_id, handled_at FROM outbox_message
  WHERE handled_at < %(before)s
    AND (handled_at, outbox_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
  ORDER BY handled_at, outbox_id LIMIT %(limit)s
), ledger_gone AS (
  DELETE FROM processed_message p WHERE p.outbox_id = ANY (ARRAY(SELECT outbox_id FROM due)) AND p.status = 'DONE'
  RETURNING p.outbox_id, pg_column_size(p.*) AS bytes
), gone AS (
  DELETE FROM outbox_message m USING ledger_gone WHERE m.outbox_id = ledger_gone.outbox_id
  RETURNING pg_column_size(m.*) + ledger_gone.bytes AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT handled_at FROM due ORDER BY handled_at DESC, outbox_id DESC LIMIT 1) AS last_time,
       (SELECT outbox_id::text FROM due ORDER BY handled_at DESC, outbox_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_outbox
-- With the ledger; an event's period runs from when it was handled. The oldest that may go is looked for among the first
-- thousand.
SELECT whole.rows, whole.bytes,
       (SELECT min(handled_at) FROM (
          SELECT outbox_id, handled_at FROM outbox_message WHERE handled_at IS NOT NULL
          ORDER BY handled_at, outbox_id LIMIT 1000) AS first
        WHERE EXISTS (
          SELECT FROM processed_message p WHERE p.outbox_id = first.outbox_id AND p.status = 'DONE' OFFSET 0)) AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('outbox_message') AS rows,
             bytes_of('outbox_message') + bytes_of('processed_message') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM outbox_message WHERE handled_at > coalesce(%(now)s, now()) - interval '1 day'
      AND handled_at <= coalesce(%(now)s, now()) ORDER BY handled_at LIMIT 1000000) AS bounded) AS lately

-- name: due_auth_errors
-- Errors that ended a certain time ago (AUTH-3), counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM auth_error
  WHERE status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED') AND updated_at < %(before)s
  ORDER BY updated_at LIMIT %(limit)s) AS due

-- name: delete_auth_errors
-- The oldest of them, each with its history, its decisions and its places in clusters, whose counts the database keeps.
-- One with an event in the outbox is kept: what comes again must find it (AUTH-7).
WITH due AS (
  SELECT e.auth_error_id, e.updated_at,
         EXISTS (SELECT FROM outbox_message m WHERE m.aggregate_id = e.auth_error_id OFFSET 0) AS is_needed
  FROM auth_error e
  WHERE e.status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED') AND e.updated_at < %(before)s
    AND (e.updated_at, e.auth_error_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'),
      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY e.updated_at, e.auth_error_id LIMIT %(limit)s
), errors_gone AS (
  DELETE FROM auth_error e USING due WHERE e.auth_error_id = due.auth_error_id AND NOT due.is_needed
  RETURNING pg_column_size(e.*) AS bytes
), transitions_gone AS (
  DELETE FROM auth_error_transition h USING due WHERE h.auth_error_id = due.auth_error_id AND NOT due.is_needed
  RETURNING pg_column_size(h.*) AS bytes
), decisions_gone AS (
  DELETE FROM auth_error_decision d USING due WHERE d.auth_error_id = due.auth_error_id AND NOT due.is_needed
  RETURNING pg_column_size(d.*) AS bytes
), items_gone AS (
  DELETE FROM auth_error_cluster_item i USING due WHERE i.auth_error_id = due.auth_error_id AND NOT due.is_needed
  RETURNING pg_column_size(i.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, (SELECT count(*) FROM errors_gone) AS deleted,
       (SELECT coalesce(sum(bytes), 0) FROM (
         SELECT bytes FROM errors_gone UNION ALL SELECT bytes FROM transitions_gone
         UNION ALL SELECT bytes FROM decisions_gone UNION ALL SELECT bytes FROM items_gone) AS gone) AS bytes,
       (SELECT updated_at FROM due ORDER BY updated_at DESC, auth_error_id DESC LIMIT 1) AS last_time,
       (SELECT auth_error_id::text FROM due ORDER BY updated_at DESC, auth_error_id DESC LIMIT 1) AS last_id

-- name: use_of_auth_errors
-- With all that goes with them; an error's period runs from its end. The oldest that may go is looked for among the first
-- thousand.
SELECT whole.rows, whole.bytes,
       (SELECT min(updated_at) FROM (
          SELECT auth_error_id, updated_at FROM auth_error WHERE status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED')
          ORDER BY updated_at, auth_error_id LIMIT 1000) AS first
        WHERE NOT EXISTS (
          SELECT FROM outbox_message m WHERE m.aggregate_id = first.auth_error_id OFFSET 0)) AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('auth_error') AS rows,
             bytes_of('auth_error') + bytes_of('auth_error_transition') + bytes_of('auth_error_decision')
               + bytes_of('auth_error_cluster_item') + bytes_of('auth_error_cluster') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM auth_error WHERE status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED')
      AND updated_at > coalesce(%(now)s, now()) - interval '1 day'
      AND updated_at <= coalesce(%(now)s, now()) ORDER BY updated_at LIMIT 1000000) AS bounded) AS lately
