-- name: enqueue
-- Add an event, in the transaction of the change that it reports (AUTH-2); zero rows: its key exists (AUTH-6).
INSERT INTO outbox_message (
  aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash, status, retry_count, next_retry_at,
  created_at)
VALUES (
  %(aggregate_type)s, %(auth_error_id)s, %(event_type)s, %(idempotency_key)s, %(payload)s, %(payload_hash)s, 'PENDING',
  0, coalesce(%(now)s, now()), coalesce(%(now)s, now()))
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING outbox_id

-- name: hash_of_key
-- The payload hash of a key's event.
SELECT payload_hash FROM outbox_message WHERE idempotency_key = %(idempotency_key)s

-- name: claim
-- PENDING to PROCESSING: due events, the oldest first, among unlocked ones (AUTH-4). Selected by state and not from a
-- sequence on, so that late commits are not skipped. An event of an error waits for earlier events of the same error.
-- Rows that are found by key compare the status in a form that matches no partial index: with statistics from a quiet
-- hour, the planner takes such an index for empty and reads all of it for each event.
WITH due AS (
  SELECT m.outbox_id FROM outbox_message m
  WHERE m.status = 'PENDING' AND m.next_retry_at <= coalesce(%(now)s, now()) AND NOT EXISTS (
    SELECT FROM outbox_message earlier
    WHERE earlier.aggregate_id = m.aggregate_id AND earlier.outbox_id < m.outbox_id
      AND earlier.status NOT IN ('PUBLISHED', 'DEAD'))
  ORDER BY m.next_retry_at, m.outbox_id LIMIT %(limit)s FOR UPDATE OF m SKIP LOCKED
), claimed AS (
  UPDATE outbox_message m SET
    status = 'PROCESSING', processing_owner = %(owner)s, processing_since = coalesce(%(now)s, now()),
    next_retry_at = NULL
  FROM due WHERE m.outbox_id = due.outbox_id AND m.status IS NOT DISTINCT FROM 'PENDING'
  RETURNING m.*
)
SELECT outbox_id, event_type, aggregate_type, payload, retry_count, created_at FROM claimed ORDER BY outbox_id

-- name: take_over
-- Take over events of owners that exceed a publisher's timeout, by elapsed time only (004 §3.2); counts as a failure.
WITH late AS (
  SELECT outbox_id FROM outbox_message
  WHERE status = 'PROCESSING'
    AND processing_since < coalesce(%(now)s, now()) - make_interval(secs => %(silent_seconds)s)
  ORDER BY processing_since, outbox_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE outbox_message m SET
    processing_owner = %(owner)s, processing_since = coalesce(%(now)s, now()), retry_count = m.retry_count + 1,
    last_error = 'the publisher that claimed it crashed or timed out'
  FROM late WHERE m.outbox_id = late.outbox_id AND m.status IS NOT DISTINCT FROM 'PROCESSING'
  RETURNING m.*
)
SELECT outbox_id, event_type, aggregate_type, payload, retry_count, created_at FROM taken ORDER BY outbox_id

-- name: mark_published
-- PROCESSING to PUBLISHED, only by the owner.
UPDATE outbox_message SET
  status = 'PUBLISHED', processing_owner = NULL, processing_since = NULL,
  published_at = coalesce(%(now)s, now()), last_sent_at = coalesce(%(now)s, now()), last_error = NULL
WHERE outbox_id = ANY (%(outbox_ids)s) AND status IS NOT DISTINCT FROM 'PROCESSING' AND processing_owner = %(owner)s

-- name: put_back
-- PROCESSING to PENDING until next_retry_at, or to DEAD without one; only by the owner.
UPDATE outbox_message SET
  status = CASE WHEN %(next_retry_at)s::timestamptz IS NULL THEN 'DEAD' ELSE 'PENDING' END,
  processing_owner = NULL, processing_since = NULL, retry_count = %(retry_count)s,
  next_retry_at = %(next_retry_at)s, last_error = %(error)s
WHERE outbox_id = %(outbox_id)s AND status IS NOT DISTINCT FROM 'PROCESSING' AND processing_owner = %(owner)s

-- name: send_again
-- Events that were published long ago, are not handled, and have no lease and no pending retry: their messages are lost.
-- Processed messages are read row by row (OFFSET 0): a join would read the whole table.
WITH lost AS (
  SELECT m.outbox_id FROM outbox_message m LEFT JOIN LATERAL (
    SELECT status, lease_until, next_retry_at FROM processed_message WHERE outbox_id = m.outbox_id OFFSET 0) p ON true
  WHERE m.status = 'PUBLISHED' AND m.handled_at IS NULL
    AND m.last_sent_at < coalesce(%(now)s, now()) - make_interval(secs => %(silent_seconds)s)
    AND (p.status IS NULL OR p.status = 'PENDING' OR p.status = 'DEAD'
      OR p.status = 'PROCESSING' AND p.lease_until < coalesce(%(now)s, now())
      OR p.status = 'RETRY_WAIT' AND p.next_retry_at < coalesce(%(now)s, now()))
  ORDER BY m.last_sent_at, m.outbox_id LIMIT %(limit)s FOR UPDATE OF m SKIP LOCKED
), sent AS (
  UPDATE outbox_message m SET last_sent_at = coalesce(%(now)s, now())
  FROM lost WHERE m.outbox_id = lost.outbox_id
  RETURNING m.*
)
SELECT outbox_id, event_type, aggregate_type, payload, retry_count, created_at FROM sent ORDER BY outbox_id

-- name: ensure_row_exists
-- The only insert of a processed message (004 §3.3): the outbox must have the event that the message names.
INSERT INTO processed_message (outbox_id, status, attempts, created_at, updated_at)
SELECT outbox_id, 'PENDING', 0, coalesce(%(now)s, now()), coalesce(%(now)s, now()) FROM outbox_message
WHERE outbox_id = %(outbox_id)s AND event_type = %(event_type)s AND aggregate_id = %(auth_error_id)s
ON CONFLICT (outbox_id) DO NOTHING

-- name: processed
-- The processed message of the event that the message names; no row: the outbox has no such event.
SELECT p.outbox_id, p.status, p.attempts, p.lease_owner, p.lease_until, p.next_retry_at, p.last_error,
       p.dead_lettered_at
FROM processed_message p JOIN outbox_message m USING (outbox_id)
WHERE p.outbox_id = %(outbox_id)s AND m.event_type = %(event_type)s AND m.aggregate_id = %(auth_error_id)s

-- name: take_lease
-- To PROCESSING with a lease: a new message, a due retry or an expired lease (AUTH-5), if the outbox has the event that
-- the message names. It counts as an attempt; after the last attempt there is no lease.
UPDATE processed_message p SET
  status = 'PROCESSING', attempts = p.attempts + 1, lease_owner = %(owner)s, next_retry_at = NULL,
  lease_until = coalesce(%(now)s, now()) + make_interval(secs => %(lease_seconds)s),
  updated_at = greatest(coalesce(%(now)s, now()), p.updated_at)
FROM outbox_message m
WHERE p.outbox_id = %(outbox_id)s AND p.attempts <= %(max_retries)s
  AND m.outbox_id = p.outbox_id AND m.event_type = %(event_type)s AND m.aggregate_id = %(auth_error_id)s
  AND (p.status = 'PENDING'
    OR p.status = 'RETRY_WAIT' AND p.next_retry_at <= coalesce(%(now)s, now())
    OR p.status = 'PROCESSING' AND p.lease_until <= coalesce(%(now)s, now()))
RETURNING p.attempts

-- name: finish
-- PROCESSING to DONE, only by the lease's owner, in the transaction of the handler's changes.
WITH done AS (
  UPDATE processed_message SET
    status = 'DONE', lease_owner = NULL, lease_until = NULL,
    updated_at = greatest(coalesce(%(now)s, now()), updated_at)
  WHERE outbox_id = %(outbox_id)s AND status = 'PROCESSING' AND lease_owner = %(owner)s
  RETURNING outbox_id, updated_at
)
UPDATE outbox_message m SET handled_at = done.updated_at FROM done
WHERE m.outbox_id = done.outbox_id
RETURNING extract(epoch FROM m.handled_at - m.created_at)::float8

-- name: lock_lease
-- Lock a lease until the transaction ends; no row: another owner has it.
SELECT attempts FROM processed_message
WHERE outbox_id = %(outbox_id)s AND status = 'PROCESSING' AND lease_owner = %(owner)s FOR UPDATE

-- name: wait
-- PROCESSING to RETRY_WAIT, only by the lease's owner. The row decides the time; the message only wakes (004 §4).
UPDATE processed_message SET
  status = 'RETRY_WAIT', lease_owner = NULL, lease_until = NULL, next_retry_at = %(next_retry_at)s,
  last_error = %(error)s, updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE outbox_id = %(outbox_id)s AND status = 'PROCESSING' AND lease_owner = %(owner)s

-- name: mark_dead
-- To DEAD: by the lease's owner, or (no owner given) for a row without a valid lease.
UPDATE processed_message SET
  status = 'DEAD', lease_owner = NULL, lease_until = NULL, next_retry_at = NULL, last_error = %(error)s,
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE outbox_id = %(outbox_id)s AND (
  status = 'PROCESSING' AND lease_owner = %(owner)s
  OR %(owner)s::uuid IS NULL AND (status IN ('PENDING', 'RETRY_WAIT')
    OR status = 'PROCESSING' AND lease_until <= coalesce(%(now)s, now())))

-- name: mark_dead_lettered
-- Mark that the copy was sent to the dead-letter queue; the event is final until an operator revives it.
WITH dead AS (
  UPDATE processed_message SET
    dead_lettered_at = coalesce(%(now)s, now()), updated_at = greatest(coalesce(%(now)s, now()), updated_at)
  WHERE outbox_id = %(outbox_id)s AND status = 'DEAD' AND dead_lettered_at IS NULL
  RETURNING outbox_id
)
UPDATE outbox_message m SET handled_at = coalesce(%(now)s, now()) FROM dead
WHERE m.outbox_id = dead.outbox_id

-- name: revive_outbox
-- DEAD to PENDING, with all retries.
UPDATE outbox_message SET status = 'PENDING', retry_count = 0, next_retry_at = coalesce(%(now)s, now())
WHERE outbox_id = %(outbox_id)s AND status = 'DEAD'

-- name: revive_processed
-- A dead processed message to PENDING; its event is sent again at the next tick.
WITH again AS (
  UPDATE processed_message SET
    status = 'PENDING', attempts = 0, dead_lettered_at = NULL,
    updated_at = greatest(coalesce(%(now)s, now()), updated_at)
  WHERE outbox_id = %(outbox_id)s AND status = 'DEAD'
  RETURNING outbox_id
)
UPDATE outbox_message m SET handled_at = NULL, last_sent_at = '-infinity' FROM again
WHERE m.outbox_id = again.outbox_id

-- name: entries
-- Events with their processed messages, the oldest first.
SELECT m.outbox_id, m.aggregate_id AS auth_error_id, m.event_type, m.status, m.retry_count, m.next_retry_at, m.last_error,
       m.published_at, m.handled_at, m.created_at, p.status AS processed_status, p.attempts,
       p.next_retry_at AS processed_next_retry_at, p.last_error AS processed_error
FROM outbox_message m LEFT JOIN processed_message p USING (outbox_id)
WHERE m.outbox_id = ANY (%(outbox_ids)s) ORDER BY m.outbox_id

-- name: waiting_ids
-- Events that are not handled, the oldest first.
SELECT outbox_id FROM outbox_message WHERE status IN ('PENDING', 'PROCESSING')
UNION SELECT outbox_id FROM outbox_message WHERE status = 'PUBLISHED' AND handled_at IS NULL
ORDER BY outbox_id LIMIT %(limit)s

-- name: ids_of_error
-- The events of an error.
SELECT outbox_id FROM outbox_message
WHERE idempotency_key IN ('auth_error:recorded:' || %(auth_error_id)s::uuid,
                          'auth_error:analysis_requested:' || %(auth_error_id)s::uuid)

-- name: dead_ids
-- Events that are dead in the outbox or at the consumer, the oldest first.
SELECT outbox_id FROM outbox_message WHERE status = 'DEAD'
UNION SELECT outbox_id FROM processed_message WHERE status = 'DEAD'
ORDER BY outbox_id LIMIT %(limit)s

-- name: lag
-- The number of unpublished events and for how many seconds the oldest is due; the numbers of messages that wait for a
-- retry, of events that are dead in the outbox, and of dead messages.
SELECT
  (SELECT count(*) FROM outbox_message WHERE status IN ('PENDING', 'PROCESSING')),
  (SELECT coalesce(greatest(0, extract(epoch FROM coalesce(%(now)s, now())
     - least(min(next_retry_at), min(processing_since)))), 0)::float8
     FROM outbox_message WHERE status IN ('PENDING', 'PROCESSING')),
  (SELECT count(*) FROM processed_message WHERE status = 'RETRY_WAIT'),
  (SELECT count(*) FROM outbox_message WHERE status = 'DEAD'),
  (SELECT count(*) FROM processed_message WHERE status = 'DEAD')

-- name: unhandled
-- Among the first 1,000 published events that are not handled: the number without a lease or retry, and for how many
-- seconds the oldest of them has been published.
SELECT count(*), coalesce(greatest(0, extract(epoch FROM coalesce(%(now)s, now()) - min(published_at))), 0)::float8
FROM (
  SELECT outbox_id, published_at FROM outbox_message WHERE status = 'PUBLISHED' AND handled_at IS NULL
  ORDER BY last_sent_at, outbox_id LIMIT 1000) AS m
LEFT JOIN LATERAL (SELECT status FROM processed_message WHERE outbox_id = m.outbox_id OFFSET 0) p ON true
WHERE p.status IS NULL OR p.status = 'PENDING'
