-- name: enqueue
-- An event into the outbox, in the transaction of what it tells (AUTH-2); zero rows: its key is known (AUTH-6).
INSERT INTO outbox_message (
  aggregate_type, aggregate_id, event_type, idempotency_key, payload, payload_hash, status, retry_count, next_retry_at,
  created_at)
VALUES (
  %(aggregate_type)s, %(auth_error_id)s, %(event_type)s, %(idempotency_key)s, %(payload)s, %(payload_hash)s, 'PENDING',
  0, coalesce(%(now)s, now()), coalesce(%(now)s, now()))
ON CONFLICT (idempotency_key) DO NOTHING
RETURNING outbox_id

-- name: hash_of_key
-- What a key's event says.
SELECT payload_hash FROM outbox_message WHERE idempotency_key = %(idempotency_key)s

-- name: claim
-- PENDING to PROCESSING: what is due, the oldest first, of those that nobody has a hand on (AUTH-4). By state and not
-- from a mark on, so that what commits late is not skipped; of one error, nothing before what came earlier is gone. What
-- is looked up by its key is asked for its state in words that match no partial index: those that hold what is under way
-- look empty to a planner whose figures are of a quiet hour, and would be read whole for each event.
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
-- What an owner has had for longer than one lives, by elapsed time alone (004 §3.2); it counts as a failure.
WITH late AS (
  SELECT outbox_id FROM outbox_message
  WHERE status = 'PROCESSING'
    AND processing_since < coalesce(%(now)s, now()) - make_interval(secs => %(silent_seconds)s)
  ORDER BY processing_since, outbox_id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE outbox_message m SET
    processing_owner = %(owner)s, processing_since = coalesce(%(now)s, now()), retry_count = m.retry_count + 1,
    last_error = 'the publisher that had it did not come back'
  FROM late WHERE m.outbox_id = late.outbox_id AND m.status IS NOT DISTINCT FROM 'PROCESSING'
  RETURNING m.*
)
SELECT outbox_id, event_type, aggregate_type, payload, retry_count, created_at FROM taken ORDER BY outbox_id

-- name: mark_published
-- PROCESSING to PUBLISHED, by the owner alone.
UPDATE outbox_message SET
  status = 'PUBLISHED', processing_owner = NULL, processing_since = NULL,
  published_at = coalesce(%(now)s, now()), last_sent_at = coalesce(%(now)s, now()), last_error = NULL
WHERE outbox_id = ANY (%(outbox_ids)s) AND status IS NOT DISTINCT FROM 'PROCESSING' AND processing_owner = %(owner)s

-- name: put_back
-- PROCESSING to PENDING until it is due again, or to DEAD (no time), by the owner alone.
UPDATE outbox_message SET
  status = CASE WHEN %(next_retry_at)s::timestamptz IS NULL THEN 'DEAD' ELSE 'PENDING' END,
  processing_owner = NULL, processing_since = NULL, retry_count = %(retry_count)s,
  next_retry_at = %(next_retry_at)s, last_error = %(error)s
WHERE outbox_id = %(outbox_id)s AND status IS NOT DISTINCT FROM 'PROCESSING' AND processing_owner = %(owner)s

-- name: send_again
-- What was published and came to no end for so long, though nobody has it and nobody waits with it: its message is lost.
-- The ledger is asked row by row (OFFSET 0): a join would read all of it.
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
-- The only way a ledger row is made (004 §3.3): of an event that is in the outbox, and says what the message says.
INSERT INTO processed_message (outbox_id, status, attempts, created_at, updated_at)
SELECT outbox_id, 'PENDING', 0, coalesce(%(now)s, now()), coalesce(%(now)s, now()) FROM outbox_message
WHERE outbox_id = %(outbox_id)s AND event_type = %(event_type)s AND aggregate_id = %(auth_error_id)s
ON CONFLICT (outbox_id) DO NOTHING

-- name: processed
-- A ledger row whose event says what the message says; no row: it is no event of ours.
SELECT p.outbox_id, p.status, p.attempts, p.lease_owner, p.lease_until, p.next_retry_at, p.last_error,
       p.dead_lettered_at
FROM processed_message p JOIN outbox_message m USING (outbox_id)
WHERE p.outbox_id = %(outbox_id)s AND m.event_type = %(event_type)s AND m.aggregate_id = %(auth_error_id)s

-- name: take_lease
-- To PROCESSING for so many seconds: what nobody has, what is due again, what a consumer died with (AUTH-5), where event
-- and message say the same. It counts as an attempt, and after the last one it is given to nobody.
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
-- PROCESSING to DONE, by the lease's owner alone, in the transaction of what was done.
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
-- Held until the transaction ends; no row: the lease is another's.
SELECT attempts FROM processed_message
WHERE outbox_id = %(outbox_id)s AND status = 'PROCESSING' AND lease_owner = %(owner)s FOR UPDATE

-- name: wait
-- PROCESSING to RETRY_WAIT, by the lease's owner alone. The row decides when; the message only wakes (004 §4).
UPDATE processed_message SET
  status = 'RETRY_WAIT', lease_owner = NULL, lease_until = NULL, next_retry_at = %(next_retry_at)s,
  last_error = %(error)s, updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE outbox_id = %(outbox_id)s AND status = 'PROCESSING' AND lease_owner = %(owner)s

-- name: mark_dead
-- To DEAD: by the lease's owner, or of a row that nobody has (no owner given).
UPDATE processed_message SET
  status = 'DEAD', lease_owner = NULL, lease_until = NULL, next_retry_at = NULL, last_error = %(error)s,
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE outbox_id = %(outbox_id)s AND (
  status = 'PROCESSING' AND lease_owner = %(owner)s
  OR %(owner)s::uuid IS NULL AND (status IN ('PENDING', 'RETRY_WAIT')
    OR status = 'PROCESSING' AND lease_until <= coalesce(%(now)s, now())))

-- name: mark_dead_lettered
-- Its copy stands in the dead-letter queue: it is at its end until an operator sends it again.
WITH dead AS (
  UPDATE processed_message SET
    dead_lettered_at = coalesce(%(now)s, now()), updated_at = greatest(coalesce(%(now)s, now()), updated_at)
  WHERE outbox_id = %(outbox_id)s AND status = 'DEAD' AND dead_lettered_at IS NULL
  RETURNING outbox_id
)
UPDATE outbox_message m SET handled_at = coalesce(%(now)s, now()) FROM dead
WHERE m.outbox_id = dead.outbox_id

-- name: revive_outbox
-- DEAD to PENDING, as if it had never failed.
UPDATE outbox_message SET status = 'PENDING', retry_count = 0, next_retry_at = coalesce(%(now)s, now())
WHERE outbox_id = %(outbox_id)s AND status = 'DEAD'

-- name: revive_processed
-- A dead ledger row to PENDING, and its event to be sent again at once.
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
-- Events with what the ledger says of them, the oldest first.
SELECT m.outbox_id, m.aggregate_id AS auth_error_id, m.event_type, m.status, m.retry_count, m.next_retry_at, m.last_error,
       m.published_at, m.handled_at, m.created_at, p.status AS processed_status, p.attempts,
       p.next_retry_at AS processed_next_retry_at, p.last_error AS processed_error
FROM outbox_message m LEFT JOIN processed_message p USING (outbox_id)
WHERE m.outbox_id = ANY (%(outbox_ids)s) ORDER BY m.outbox_id

-- name: waiting_ids
-- What is on its way: to be published, or published and not handled, the oldest first.
SELECT outbox_id FROM outbox_message WHERE status IN ('PENDING', 'PROCESSING')
UNION SELECT outbox_id FROM outbox_message WHERE status = 'PUBLISHED' AND handled_at IS NULL
ORDER BY outbox_id LIMIT %(limit)s

-- name: ids_of_error
-- The events of an error.
SELECT outbox_id FROM outbox_message
WHERE idempotency_key IN ('auth_error:recorded:' || %(auth_error_id)s::uuid,
                          'auth_error:analysis_requested:' || %(auth_error_id)s::uuid)

-- name: dead_ids
-- What died, in the outbox or in the ledger, the oldest first.
SELECT outbox_id FROM outbox_message WHERE status = 'DEAD'
UNION SELECT outbox_id FROM processed_message WHERE status = 'DEAD'
ORDER BY outbox_id LIMIT %(limit)s

-- name: lag
-- How many wait to be published and how long the oldest has been due, in seconds; how many wait for a retry in the
-- ledger; how many are dead in the outbox, and in the ledger.
SELECT
  (SELECT count(*) FROM outbox_message WHERE status IN ('PENDING', 'PROCESSING')),
  (SELECT coalesce(greatest(0, extract(epoch FROM coalesce(%(now)s, now())
     - least(min(next_retry_at), min(processing_since)))), 0)::float8
     FROM outbox_message WHERE status IN ('PENDING', 'PROCESSING')),
  (SELECT count(*) FROM processed_message WHERE status = 'RETRY_WAIT'),
  (SELECT count(*) FROM outbox_message WHERE status = 'DEAD'),
  (SELECT count(*) FROM processed_message WHERE status = 'DEAD')

-- name: unhandled
-- Of the 1,000 that were sent first of what nobody handled: how many nobody has and no retry waits for, and for how long
-- the oldest of these has been published.
SELECT count(*), coalesce(greatest(0, extract(epoch FROM coalesce(%(now)s, now()) - min(published_at))), 0)::float8
FROM (
  SELECT outbox_id, published_at FROM outbox_message WHERE status = 'PUBLISHED' AND handled_at IS NULL
  ORDER BY last_sent_at, outbox_id LIMIT 1000) AS m
LEFT JOIN LATERAL (SELECT status FROM processed_message WHERE outbox_id = m.outbox_id OFFSET 0) p ON true
WHERE p.status IS NULL OR p.status = 'PENDING'
