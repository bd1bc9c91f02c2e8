-- name: due_tickets
-- Tickets that ended a certain time ago, counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM tickets WHERE current_status IN ('DONE', 'FAILED') AND updated_at < %(before)s
  ORDER BY updated_at LIMIT %(limit)s) AS due

-- name: delete_tickets
-- The oldest of them, each with its result and its history. One whose decision still stands (TIX-1) is kept: the record
-- of who decided it, and why.
WITH due AS (
  SELECT t.request_id, t.updated_at,
         EXISTS (SELECT FROM execution_switches s WHERE s.decision_id = t.request_id) AS is_needed
  FROM tickets t
  WHERE t.current_status IN ('DONE', 'FAILED') AND t.updated_at < %(before)s
    AND (t.updated_at, t.request_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'),
      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY t.updated_at, t.request_id LIMIT %(limit)s
), tickets_gone AS (
  DELETE FROM tickets t USING due WHERE t.request_id = due.request_id AND NOT due.is_needed
  RETURNING pg_column_size(t.*) AS bytes
), results_gone AS (
  DELETE FROM ticket_results r USING due WHERE r.request_id = due.request_id AND NOT due.is_needed
  RETURNING pg_column_size(r.*) AS bytes
), transitions_gone AS (
  DELETE FROM ticket_transitions h USING due WHERE h.request_id = due.request_id AND NOT due.is_needed
  RETURNING pg_column_size(h.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, (SELECT count(*) FROM tickets_gone) AS deleted,
       (SELECT coalesce(sum(bytes), 0) FROM (
         SELECT bytes FROM tickets_gone UNION ALL SELECT bytes FROM results_gone
         UNION ALL SELECT bytes FROM transitions_gone) AS gone) AS bytes,
       (SELECT updated_at FROM due ORDER BY updated_at DESC, request_id DESC LIMIT 1) AS last_time,
       (SELECT request_id::text FROM due ORDER BY updated_at DESC, request_id DESC LIMIT 1) AS last_id

-- name: use_of_tickets
-- With results and history; a ticket's period runs from its end.
SELECT whole.rows, whole.bytes,
       (SELECT updated_at FROM tickets t
        WHERE current_status IN ('DONE', 'FAILED')
          AND NOT EXISTS (SELECT FROM execution_switches s WHERE s.decision_id = t.request_id OFFSET 0)
        ORDER BY updated_at, request_id LIMIT 1) AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('tickets') AS rows,
             bytes_of('tickets') + bytes_of('ticket_results') + bytes_of('ticket_transitions') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM tickets WHERE current_status IN ('DONE', 'FAILED')
      AND updated_at > coalesce(%(now)s, now()) - interval '1 day'
      AND updated_at <= coalesce(%(now)s, now()) ORDER BY updated_at LIMIT 1000000) AS bounded) AS lately

-- name: due_ops_receipts
-- Receipts of cycles that ended a certain time ago, counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM ops_run_receipts WHERE finished_at < %(before)s ORDER BY finished_at LIMIT %(limit)s) AS due

-- name: delete_ops_receipts
-- The oldest of them; one that is RUNNING has no end.
WITH due AS (
  SELECT run_id, finished_at FROM ops_run_receipts
  WHERE finished_at < %(before)s
    AND (finished_at, run_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'),
      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY finished_at, run_id LIMIT %(limit)s
), gone AS (
  DELETE FROM ops_run_receipts o WHERE o.run_id = ANY (ARRAY(SELECT run_id FROM due))
  RETURNING pg_column_size(o.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT finished_at FROM due ORDER BY finished_at DESC, run_id DESC LIMIT 1) AS last_time,
       (SELECT run_id::text FROM due ORDER BY finished_at DESC, run_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_ops_receipts
-- A receipt's period runs from the end of its cycle.
SELECT whole.rows, whole.bytes,
       (SELECT min(finished_at) FROM ops_run_receipts WHERE finished_at IS NOT NULL) AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('ops_run_receipts') AS rows, bytes_of('ops_run_receipts') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM ops_run_receipts WHERE finished_at > coalesce(%(now)s, now()) - interval '1 day'
      AND finished_at <= coalesce(%(now)s, now()) ORDER BY finished_at LIMIT 1000000) AS bounded) AS lately

-- name: due_reaper_reports
-- Reports that were published a certain time ago, counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM ticket_reaper_reports WHERE published_at < %(before)s ORDER BY published_at LIMIT %(limit)s) AS due

-- name: delete_reaper_reports
-- The oldest of them. The newest report is what the API answers (TIX-5), however old it is.
WITH due AS (
  SELECT report_id, published_at FROM ticket_reaper_reports
  WHERE published_at < %(before)s
    AND (published_at, report_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
  ORDER BY published_at, report_id LIMIT %(limit)s
), gone AS (
  DELETE FROM ticket_reaper_reports p
  WHERE p.report_id = ANY (ARRAY(SELECT report_id FROM due))
    AND p.report_id < (SELECT max(report_id) FROM ticket_reaper_reports)
  RETURNING pg_column_size(p.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT published_at FROM due ORDER BY published_at DESC, report_id DESC LIMIT 1) AS last_time,
       (SELECT report_id::text FROM due ORDER BY published_at DESC, report_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_reaper_reports
-- A report's period runs from its publication.
SELECT whole.rows, whole.bytes,
       (SELECT published_at FROM ticket_reaper_reports
        WHERE published_at IS NOT NULL AND report_id < (SELECT max(report_id) FROM ticket_reaper_reports)
        ORDER BY published_at, report_id LIMIT 1) AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('ticket_reaper_reports') AS rows, bytes_of('ticket_reaper_reports') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM ticket_reaper_reports WHERE published_at > coalesce(%(now)s, now()) - interval '1 day'
      AND published_at <= coalesce(%(now)s, now()) ORDER BY published_at LIMIT 1000000) AS bounded) AS lately
