-- name: next_number
-- The next number of a name in the current UTC day. A new day starts at 1; a clock that is behind starts no day.
INSERT INTO lifecycle_sequences AS s (name, day, value)
VALUES (%(name)s, (coalesce(%(now)s, now()) AT TIME ZONE 'UTC')::date, 1)
ON CONFLICT (name) DO UPDATE SET
  day = greatest(s.day, excluded.day),
  value = CASE WHEN excluded.day > s.day THEN 1 ELSE s.value + 1 END
RETURNING to_char(day, 'YYYYMMDD'), value

-- name: pending_events
-- A page of events that are not dispatched, the oldest first, after a sequence.
SELECT event_id, sequence FROM lifecycle_events
WHERE status = 'PENDING' AND sequence > %(after)s
ORDER BY sequence LIMIT %(limit)s

-- name: dispatch_event
-- PENDING to DISPATCHED; zero rows if another dispatcher has it, or had it.
WITH taken AS (
  SELECT event_id FROM lifecycle_events WHERE event_id = %(event_id)s AND status = 'PENDING'
  FOR UPDATE SKIP LOCKED)
UPDATE lifecycle_events e SET status = 'DISPATCHED', dispatched_at = coalesce(%(now)s, now())
FROM taken WHERE e.event_id = taken.event_id
RETURNING e.*

-- name: insert_task
-- Creates the task of an event; zero rows if an event of this id has a task, which then ends this event as well.
INSERT INTO lifecycle_tasks (task_id, event_id, kind, subject, status, attempt, next_look_at, created_at)
SELECT %(task_id)s, event_id, kind, payload, 'PENDING', 0, coalesce(%(now)s, now()), coalesce(%(now)s, now())
FROM lifecycle_events WHERE event_id = %(event_id)s
ON CONFLICT (event_id) DO NOTHING

-- name: end_events
-- DISPATCHED to the outcome of the task, the oldest first.
WITH ended AS (
  SELECT e.event_id, t.outcome, t.last_failure
  FROM lifecycle_events e JOIN lifecycle_tasks t USING (event_id)
  WHERE e.status = 'DISPATCHED' AND t.status = 'COMPLETED'
  ORDER BY e.sequence LIMIT %(limit)s FOR UPDATE OF e SKIP LOCKED)
UPDATE lifecycle_events e SET
  status = CASE ended.outcome WHEN 'SUCCEEDED' THEN 'COMPLETED' ELSE 'FAILED' END,
  reason = CASE ended.outcome WHEN 'FAILED' THEN coalesce(ended.last_failure, 'its task failed') END,
  ended_at = coalesce(%(now)s, now())
FROM ended WHERE e.event_id = ended.event_id
RETURNING e.status

-- name: fail_orphans
-- DISPATCHED to FAILED if the task no longer exists; an event and its task are dispatched in one transaction.
WITH orphans AS (
  SELECT e.event_id FROM lifecycle_events e
  WHERE e.status = 'DISPATCHED' AND NOT EXISTS (SELECT FROM lifecycle_tasks t WHERE t.event_id = e.event_id)
  ORDER BY e.sequence LIMIT %(limit)s FOR UPDATE OF e SKIP LOCKED)
UPDATE lifecycle_events e SET
  status = 'FAILED', reason = 'its task is gone', ended_at = coalesce(%(now)s, now())
FROM orphans WHERE e.event_id = orphans.event_id
RETURNING e.status

-- name: take_on_tasks
-- PENDING to IN_PROGRESS, the oldest first; each is due to be checked at once.
WITH taken AS (
  SELECT task_id FROM lifecycle_tasks WHERE status = 'PENDING'
  ORDER BY sequence LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
UPDATE lifecycle_tasks t SET
  status = 'IN_PROGRESS', attempt = 1,
  started_at = coalesce(%(now)s, now()), next_look_at = coalesce(%(now)s, now())
FROM taken WHERE t.task_id = taken.task_id

-- name: claim_task
-- Leases the task that has been due to be checked for the longest time.
WITH due AS (
  SELECT task_id FROM lifecycle_tasks
  WHERE status = 'IN_PROGRESS' AND NOT waits_for_person AND next_look_at <= %(due)s
  ORDER BY next_look_at, sequence LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE lifecycle_tasks t
SET next_look_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease_seconds)s)
FROM due WHERE t.task_id = due.task_id
RETURNING t.*

-- name: record_run
-- Stores the run of an attempt that has none.
UPDATE lifecycle_tasks
SET run_id = %(new_run_id)s, next_look_at = coalesce(%(now)s, now()) + make_interval(secs => %(pause_seconds)s)
WHERE task_id = %(task_id)s AND status = 'IN_PROGRESS' AND NOT waits_for_person
  AND attempt = %(attempt)s AND run_id IS NULL
RETURNING *

-- name: check_later
-- Postpones the next check, with the reason if there is one.
UPDATE lifecycle_tasks SET
  next_look_at = coalesce(%(now)s, now()) + make_interval(secs => %(pause_seconds)s),
  last_failure = coalesce(%(failure)s, last_failure)
WHERE task_id = %(task_id)s AND status = 'IN_PROGRESS' AND NOT waits_for_person
  AND attempt = %(attempt)s AND run_id IS NOT DISTINCT FROM %(run_id)s
RETURNING *

-- name: next_attempt
-- Starts another attempt, a while after a failed one.
UPDATE lifecycle_tasks SET
  attempt = attempt + 1, run_id = NULL, last_failure = %(failure)s,
  next_look_at = coalesce(%(now)s, now()) + make_interval(secs => %(pause_seconds)s)
WHERE task_id = %(task_id)s AND status = 'IN_PROGRESS' AND NOT waits_for_person
  AND attempt = %(attempt)s AND run_id IS NOT DISTINCT FROM %(run_id)s
RETURNING *

-- name: ask_person
-- Suspends checks until a person has answered.
UPDATE lifecycle_tasks SET waits_for_person = true, last_failure = %(failure)s
WHERE task_id = %(task_id)s AND status = 'IN_PROGRESS' AND NOT waits_for_person
  AND attempt = %(attempt)s AND run_id IS NOT DISTINCT FROM %(run_id)s
RETURNING *

-- name: complete_task
-- IN_PROGRESS to COMPLETED, after its result is stored.
UPDATE lifecycle_tasks SET
  status = 'COMPLETED', outcome = %(outcome)s, last_failure = %(failure)s,
  ended_at = greatest(coalesce(%(now)s, now()), started_at)
WHERE task_id = %(task_id)s AND status = 'IN_PROGRESS' AND NOT waits_for_person
  AND attempt = %(attempt)s AND run_id IS NOT DISTINCT FROM %(run_id)s
RETURNING *

-- name: take_answer
-- Starts an attempt with a person's answer; zero rows if no answer is awaited, or if this one is a repetition.
UPDATE lifecycle_tasks SET
  waits_for_person = false, answer = %(answer)s, attempt = attempt + 1, run_id = NULL,
  next_look_at = coalesce(%(now)s, now())
WHERE task_id = %(task_id)s AND status = 'IN_PROGRESS' AND waits_for_person
  AND (%(again)s OR answer IS DISTINCT FROM %(answer)s)
RETURNING *

-- name: lock_objects
-- Locks rows against the cleaner: what it is deleting is deleted and listed when this query returns.
SELECT object_key FROM lifecycle_objects WHERE object_key = ANY (%(keys)s) ORDER BY object_key FOR UPDATE

-- name: register_objects
-- Registers objects that an attempt is about to write. Zero rows if the attempt is superseded, or if an older object
-- under one of the keys is still being deleted.
INSERT INTO lifecycle_objects AS o (object_key, kind, task_id, bytes, created_at)
SELECT new.object_key, new.kind, t.task_id, new.bytes, coalesce(%(now)s, now())
FROM lifecycle_tasks t,
  unnest(%(keys)s::text[], %(kinds)s::text[], %(sizes)s::bigint[]) AS new (object_key, kind, bytes)
WHERE t.task_id = %(task_id)s AND t.status = 'IN_PROGRESS' AND NOT t.waits_for_person
  AND t.attempt = %(attempt)s AND t.run_id IS NOT DISTINCT FROM %(run_id)s
  AND NOT EXISTS (SELECT FROM lifecycle_deletions WHERE object_key = ANY (%(keys)s))
ON CONFLICT (object_key) DO UPDATE SET bytes = excluded.bytes, created_at = excluded.created_at

-- name: insert_message
-- Writes a message, once per dedup_key.
INSERT INTO lifecycle_messages
  (message_id, kind, task_id, dedup_key, body, status, attempts, next_attempt_at, created_at)
VALUES
  (%(message_id)s, %(kind)s, %(task_id)s, %(dedup_key)s, %(body)s, 'PENDING', 0,
   coalesce(%(now)s, now()), coalesce(%(now)s, now()))
ON CONFLICT (dedup_key) DO NOTHING

-- name: claim_message
-- Leases the oldest message that is due and is not preceded by another of its task; with the task's thread.
WITH due AS (
  SELECT m.message_id FROM lifecycle_messages m
  WHERE m.status = 'PENDING' AND m.next_attempt_at <= %(due)s
    AND NOT EXISTS (
      SELECT FROM lifecycle_messages earlier
      WHERE earlier.task_id = m.task_id AND earlier.status = 'PENDING' AND earlier.sequence < m.sequence)
  ORDER BY m.sequence LIMIT 1 FOR UPDATE OF m SKIP LOCKED)
UPDATE lifecycle_messages m
SET next_attempt_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease_seconds)s)
FROM due WHERE m.message_id = due.message_id
RETURNING m.*,
  (SELECT channel FROM lifecycle_threads t WHERE t.task_id = m.task_id) AS channel,
  (SELECT thread_ts FROM lifecycle_threads t WHERE t.task_id = m.task_id) AS thread_ts

-- name: mark_sent
-- PENDING to SENT; zero rows if another notifier has sent it.
UPDATE lifecycle_messages SET
  status = 'SENT', attempts = attempts + 1, last_error = NULL, sent_at = coalesce(%(now)s, now())
WHERE message_id = %(message_id)s AND status = 'PENDING'
RETURNING message_id

-- name: note_undelivered
-- Plans another attempt; zero rows if the message was sent, or if another notifier has recorded a failure.
UPDATE lifecycle_messages SET
  attempts = attempts + 1, last_error = %(error)s,
  next_attempt_at = coalesce(%(now)s, now()) + make_interval(secs => %(pause_seconds)s)
WHERE message_id = %(message_id)s AND status = 'PENDING' AND attempts = %(attempts)s
RETURNING message_id

-- name: keep_thread
-- Stores the thread of a task (LIFE-10); zero rows if the task no longer exists, or if it has a thread.
INSERT INTO lifecycle_threads (task_id, channel, thread_ts, created_at)
SELECT task_id, %(channel)s, %(thread_ts)s, coalesce(%(now)s, now())
FROM lifecycle_tasks WHERE task_id = %(task_id)s FOR KEY SHARE
ON CONFLICT DO NOTHING

-- name: drop_thread
-- Deletes the thread of a task that has ended (LIFE-10).
DELETE FROM lifecycle_threads WHERE task_id = %(task_id)s

-- name: task_of_thread
-- The task of a thread.
SELECT task_id FROM lifecycle_threads WHERE channel = %(channel)s AND thread_ts = %(thread_ts)s

-- name: await_answer
-- Records that a person has received the question (LIFE-10); zero rows if it is answered, or if a newer one was asked.
INSERT INTO lifecycle_awaiting (task_id, message_id, created_at)
SELECT t.task_id, m.message_id, coalesce(%(now)s, now())
FROM lifecycle_messages m JOIN lifecycle_tasks t USING (task_id)
WHERE m.message_id = %(message_id)s AND t.waits_for_person AND m.dedup_key = t.task_id || '/ask-' || t.attempt
FOR SHARE OF t
ON CONFLICT (task_id) DO UPDATE SET message_id = excluded.message_id, created_at = excluded.created_at

-- name: forget_awaited
-- Records that no answer is awaited (LIFE-10).
DELETE FROM lifecycle_awaiting WHERE task_id = %(task_id)s

-- name: task
-- A task by its id.
SELECT * FROM lifecycle_tasks WHERE task_id = %(task_id)s

-- name: backlog
-- Counts of open items, the age of the oldest, and overdue threads and questions (LIFE-10). Ended items are not
-- counted.
SELECT
  (SELECT count(*) FROM lifecycle_events WHERE status = 'PENDING') AS events_pending,
  (SELECT count(*) FROM lifecycle_events WHERE status = 'DISPATCHED') AS events_dispatched,
  (SELECT count(*) FROM lifecycle_tasks WHERE status = 'PENDING') AS tasks_pending,
  (SELECT count(*) FROM lifecycle_tasks WHERE status = 'IN_PROGRESS' AND NOT waits_for_person) AS tasks_in_progress,
  (SELECT count(*) FROM lifecycle_tasks WHERE status = 'IN_PROGRESS' AND waits_for_person) AS tasks_waiting_for_person,
  (SELECT count(*) FROM lifecycle_messages WHERE status = 'PENDING') AS messages_pending,
  (SELECT created_at FROM lifecycle_events WHERE status = 'PENDING' ORDER BY sequence LIMIT 1) AS oldest_event_at,
  (SELECT least(
    (SELECT min(created_at) FROM lifecycle_tasks WHERE status = 'PENDING'),
    (SELECT min(created_at) FROM lifecycle_tasks WHERE status = 'IN_PROGRESS' AND NOT waits_for_person)
  )) AS oldest_task_at,
  (SELECT created_at FROM lifecycle_messages WHERE status = 'PENDING' ORDER BY sequence LIMIT 1) AS oldest_message_at,
  (SELECT count(*) FROM lifecycle_threads
    WHERE created_at < coalesce(%(now)s, now()) - make_interval(days => %(old_days)s)) AS old_threads,
  (SELECT count(*) FROM lifecycle_awaiting
    WHERE created_at < coalesce(%(now)s, now()) - make_interval(days => %(old_days)s)) AS old_awaiting,
  coalesce(%(now)s, now()) AS asof
