-- name: file_ticket
-- File one ticket per request_id; zero rows: the id exists, by either unique index.
INSERT INTO tickets (
  request_id, request_type, params, reason, requested_by, current_status, moved_by, created_at, updated_at)
VALUES (
  %(request_id)s, %(request_type)s, %(params)s, %(reason)s, %(requested_by)s, 'OPEN', %(requested_by)s,
  coalesce(%(now)s, now()), coalesce(%(now)s, now()))
ON CONFLICT DO NOTHING
RETURNING *

-- name: ticket
-- A ticket by its id.
SELECT * FROM tickets WHERE request_id = %(request_id)s

-- name: result
-- The result of a ticket that has ended.
SELECT request_id, processor_id, status, processed_at, message FROM ticket_results WHERE request_id = %(request_id)s

-- name: transitions
-- The history of a ticket, as the trigger wrote it.
SELECT from_status, to_status, actor, attempt, happened_at FROM ticket_transitions
WHERE request_id = %(request_id)s ORDER BY transition_id

-- name: page_tickets
-- The newest first, below a sequence.
SELECT * FROM tickets
WHERE sequence < %(below)s
  AND (%(status)s::text IS NULL OR current_status = %(status)s)
  AND (%(request_type)s::text IS NULL OR request_type = %(request_type)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: page_stale
-- Stale tickets, the oldest first.
SELECT * FROM tickets
WHERE current_status = 'IN_PROGRESS'
  AND last_processed_at < coalesce(%(now)s, now()) - make_interval(secs => %(threshold_seconds)s)
  AND request_type <> ALL (%(excluded)s)
ORDER BY last_processed_at, request_id LIMIT %(limit)s

-- name: take_open
-- OPEN to IN_PROGRESS: the ticket that was filed first, among unlocked ones.
UPDATE tickets SET
  current_status = 'IN_PROGRESS', processor_id = %(processor_id)s, moved_by = %(processor_id)s,
  attempts = attempts + 1,
  last_processed_at = greatest(coalesce(%(now)s, now()), updated_at),
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE current_status = 'OPEN' AND request_id = (
  SELECT request_id FROM tickets WHERE current_status = 'OPEN'
  ORDER BY sequence LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *

-- name: take_again
-- Take over a ticket whose processor was inactive for longer than its function's timeout, up to max_attempts times. A
-- stale ticket is left to the reaper.
UPDATE tickets SET
  processor_id = %(processor_id)s, moved_by = %(processor_id)s, attempts = attempts + 1,
  last_processed_at = greatest(coalesce(%(now)s, now()), updated_at),
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE current_status = 'IN_PROGRESS' AND request_id = (
  SELECT request_id FROM tickets
  WHERE current_status = 'IN_PROGRESS'
    AND last_processed_at < coalesce(%(now)s, now()) - make_interval(secs => %(silent_seconds)s)
    AND attempts < %(max_attempts)s
    AND (last_processed_at >= coalesce(%(now)s, now()) - make_interval(secs => %(threshold_seconds)s)
      OR request_type = ANY (%(excluded)s))
  ORDER BY last_processed_at, request_id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING *

-- name: finish
-- IN_PROGRESS to DONE or FAILED, with a result; only by the holder of this attempt.
WITH ended AS (
  UPDATE tickets SET
    current_status = %(status)s, moved_by = %(processor_id)s,
    updated_at = greatest(coalesce(%(now)s, now()), updated_at)
  WHERE request_id = %(request_id)s AND current_status = 'IN_PROGRESS'
    AND processor_id = %(processor_id)s AND attempts = %(attempts)s
  RETURNING *
), result AS (
  INSERT INTO ticket_results (request_id, processor_id, status, processed_at, message)
  SELECT request_id, %(processor_id)s, %(status)s, updated_at, %(message)s FROM ended
)
SELECT * FROM ended

-- name: backlog
-- Tickets in progress, and stale ones among them (TIX-1); an index-only scan.
SELECT count(*),
       count(*) FILTER (
         WHERE last_processed_at < coalesce(%(now)s, now()) - make_interval(secs => %(threshold_seconds)s)
           AND request_type <> ALL (%(excluded)s))
FROM tickets WHERE current_status = 'IN_PROGRESS'

-- name: reap
-- IN_PROGRESS to FAILED with its result (TIX-2), the oldest first. Status and last_processed_at are checked on the locked
-- row: an earlier heartbeat wins, and a locked row is skipped without hiding later ones.
WITH stale AS (
  SELECT request_id, last_processed_at FROM tickets
  WHERE current_status = 'IN_PROGRESS'
    AND last_processed_at < coalesce(%(now)s, now()) - make_interval(secs => %(threshold_seconds)s)
    AND request_type <> ALL (%(excluded)s)
  ORDER BY last_processed_at, request_id LIMIT %(max_clean)s FOR UPDATE SKIP LOCKED
), cleaned AS (
  UPDATE tickets SET
    current_status = 'FAILED', moved_by = %(processor_id)s,
    updated_at = greatest(coalesce(%(now)s, now()), updated_at)
  FROM stale
  WHERE tickets.request_id = stale.request_id AND tickets.current_status = 'IN_PROGRESS'
    AND tickets.last_processed_at = stale.last_processed_at
  RETURNING tickets.request_id, tickets.request_type, tickets.last_processed_at, tickets.updated_at
), results AS (
  INSERT INTO ticket_results (request_id, processor_id, status, processed_at, message)
  SELECT request_id, %(processor_id)s, 'FAILED', updated_at, %(message)s FROM cleaned
)
SELECT request_id, request_type, last_processed_at FROM cleaned ORDER BY last_processed_at, request_id

-- name: insert_report
-- Insert a report in the transaction of the changes that it reports; zero rows: the snapshot's key is taken.
INSERT INTO ticket_reaper_reports (asof, actor, breaker_tripped, snapshot_key, report)
VALUES (%(asof)s, %(actor)s, %(breaker_tripped)s, %(snapshot_key)s, %(report)s)
ON CONFLICT (snapshot_key) DO NOTHING
RETURNING report_id

-- name: latest_report
-- The newest report.
SELECT report_id, snapshot_key, report FROM ticket_reaper_reports ORDER BY report_id DESC LIMIT 1

-- name: report_of_snapshot
-- The report with this snapshot.
SELECT report_id, snapshot_key, report FROM ticket_reaper_reports WHERE snapshot_key = %(snapshot_key)s

-- name: unpublished_reports
-- Reports that are not marked as published, the oldest first.
SELECT report_id, snapshot_key, report FROM ticket_reaper_reports
WHERE published_at IS NULL ORDER BY report_id LIMIT %(limit)s

-- name: mark_published
-- Mark a report as published.
UPDATE ticket_reaper_reports SET published_at = coalesce(%(now)s, now())
WHERE report_id = %(report_id)s AND published_at IS NULL

-- name: emergency_stop
-- The emergency stop and its last change.
SELECT stopped, actor, reason, changed_at FROM emergency_stop

-- name: emergency_stop_held
-- The same; it can't be set before this transaction ends.
SELECT stopped, actor, reason, changed_at FROM emergency_stop FOR SHARE

-- name: set_emergency_stop
-- Set or clear the stop; a trigger stores every change.
UPDATE emergency_stop SET
  stopped = %(stopped)s, actor = %(actor)s, reason = %(reason)s,
  changed_at = greatest(coalesce(%(now)s, now()), changed_at)
RETURNING stopped, actor, reason, changed_at

-- name: emergency_stop_changes
-- Changes of the stop, the newest first.
SELECT stopped, actor, reason, changed_at FROM emergency_stop_changes ORDER BY change_id DESC LIMIT %(limit)s

-- name: abandon_receipts
-- Mark cycles that crashed; the caller holds the lease, so no other cycle is running.
UPDATE ops_run_receipts SET
  outcome = 'ABANDONED', finished_at = coalesce(%(now)s, now()), receipt = receipt || %(changes)s
WHERE outcome = 'RUNNING'

-- name: begin_receipt
-- Start a cycle's receipt (TIX-6).
INSERT INTO ops_run_receipts (run_id, started_at, outcome, receipt)
VALUES (%(run_id)s, coalesce(%(now)s, now()), 'RUNNING', %(receipt)s)

-- name: write_receipt
-- Write a cycle's receipt; one with an outcome is final.
UPDATE ops_run_receipts SET
  receipt = %(receipt)s, outcome = %(outcome)s,
  finished_at = CASE WHEN %(outcome)s <> 'RUNNING' THEN greatest(coalesce(%(now)s, now()), started_at) END
WHERE run_id = %(run_id)s AND outcome = 'RUNNING'
RETURNING finished_at

-- name: latest_receipts
-- Receipts, the newest first.
SELECT receipt FROM ops_run_receipts ORDER BY sequence DESC LIMIT %(limit)s

-- name: count_waiting
-- OPEN and IN_PROGRESS tickets by type, stale ones separately (TIX-7), with the time of the oldest.
SELECT request_type, 'OPEN', count(*), min(created_at) FROM tickets WHERE current_status = 'OPEN' GROUP BY 1
UNION ALL
SELECT request_type,
       CASE WHEN last_processed_at < coalesce(%(now)s, now()) - make_interval(secs => %(threshold_seconds)s)
              AND request_type <> ALL (%(excluded)s)
            THEN 'STALE' ELSE 'IN_PROGRESS' END,
       count(*), min(last_processed_at)
FROM tickets WHERE current_status = 'IN_PROGRESS' GROUP BY 1, 2

-- name: count_ended
-- Tickets that ended within a day and within a week, by type.
SELECT request_type, current_status,
       count(*) FILTER (WHERE updated_at >= coalesce(%(now)s, now()) - interval '1 day'), count(*)
FROM tickets
WHERE current_status IN ('DONE', 'FAILED') AND updated_at >= coalesce(%(now)s, now()) - interval '7 days'
GROUP BY 1, 2
