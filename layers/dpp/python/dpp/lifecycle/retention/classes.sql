-- name: due_results
-- Results (LIFE-3) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_objects WHERE kind = 'RESULT' AND created_at < %(before)s
  ORDER BY created_at LIMIT %(limit)s) AS due

-- name: delete_results
-- Results (LIFE-3) of tasks that are over: their keys to the list of what S3 is to delete, in one statement. A task's were
-- entered at one moment and go in one batch, so that nobody reads half of them (LIFE-12).
WITH due AS (
  SELECT created_at, object_key FROM lifecycle_objects
  WHERE kind = 'RESULT' AND created_at < %(before)s
    AND (created_at, object_key) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY created_at FETCH FIRST (%(limit)s) ROWS WITH TIES
), gone AS (
  DELETE FROM lifecycle_objects AS one WHERE one.object_key = ANY (ARRAY(SELECT object_key FROM due))
    AND NOT EXISTS (SELECT FROM lifecycle_tasks t WHERE t.task_id = one.task_id AND t.status <> 'COMPLETED')
  RETURNING one.object_key, one.bytes
), listed AS (
  INSERT INTO lifecycle_deletions (object_key, listed_at, next_attempt_at)
  SELECT object_key, coalesce(%(now)s, now()), coalesce(%(now)s, now()) FROM gone
  ON CONFLICT (object_key) DO NOTHING
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(created_at) FROM due) AS last_time,
       (SELECT object_key FROM due ORDER BY created_at DESC, object_key DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_results
-- How much there is of results, in S3, and what a day adds.
SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes, min(created_at) AS oldest_at,
       count(*) FILTER (WHERE created_at >= coalesce(%(now)s, now()) - interval '1 day') AS rows_a_day,
       coalesce(sum(bytes) FILTER (WHERE created_at >= coalesce(%(now)s, now()) - interval '1 day'), 0) AS bytes_a_day
FROM lifecycle_objects WHERE kind = 'RESULT'

-- name: due_prompts
-- Prompts (LIFE-4) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_objects WHERE kind = 'PROMPT' AND created_at < %(before)s
  ORDER BY created_at LIMIT %(limit)s) AS due

-- name: delete_prompts
-- Prompts (LIFE-4) of tasks that are over: their keys to the list of what S3 is to delete, in one statement.
WITH due AS (
  SELECT created_at, object_key FROM lifecycle_objects
  WHERE kind = 'PROMPT' AND created_at < %(before)s
    AND (created_at, object_key) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY created_at, object_key LIMIT %(limit)s
), gone AS (
  DELETE FROM lifecycle_objects AS one WHERE one.object_key = ANY (ARRAY(SELECT object_key FROM due))
    AND NOT EXISTS (SELECT FROM lifecycle_tasks t WHERE t.task_id = one.task_id AND t.status <> 'COMPLETED')
  RETURNING one.object_key, one.bytes
), listed AS (
  INSERT INTO lifecycle_deletions (object_key, listed_at, next_attempt_at)
  SELECT object_key, coalesce(%(now)s, now()), coalesce(%(now)s, now()) FROM gone
  ON CONFLICT (object_key) DO NOTHING
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(created_at) FROM due) AS last_time,
       (SELECT object_key FROM due ORDER BY created_at DESC, object_key DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_prompts
-- How much there is of prompts, in S3, and what a day adds.
SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes, min(created_at) AS oldest_at,
       count(*) FILTER (WHERE created_at >= coalesce(%(now)s, now()) - interval '1 day') AS rows_a_day,
       coalesce(sum(bytes) FILTER (WHERE created_at >= coalesce(%(now)s, now()) - interval '1 day'), 0) AS bytes_a_day
FROM lifecycle_objects WHERE kind = 'PROMPT'

-- name: due_session_logs
-- Sessions' logs (LIFE-4) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_objects WHERE kind = 'SESSION_LOG' AND created_at < %(before)s
  ORDER BY created_at LIMIT %(limit)s) AS due

-- name: delete_session_logs
-- Sessions' logs (LIFE-4) of tasks that are over: their keys to the list of what S3 is to delete, in one statement. Both
-- of a session go in one batch, as results do.
WITH due AS (
  SELECT created_at, object_key FROM lifecycle_objects
  WHERE kind = 'SESSION_LOG' AND created_at < %(before)s
    AND (created_at, object_key) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY created_at FETCH FIRST (%(limit)s) ROWS WITH TIES
), gone AS (
  DELETE FROM lifecycle_objects AS one WHERE one.object_key = ANY (ARRAY(SELECT object_key FROM due))
    AND NOT EXISTS (SELECT FROM lifecycle_tasks t WHERE t.task_id = one.task_id AND t.status <> 'COMPLETED')
  RETURNING one.object_key, one.bytes
), listed AS (
  INSERT INTO lifecycle_deletions (object_key, listed_at, next_attempt_at)
  SELECT object_key, coalesce(%(now)s, now()), coalesce(%(now)s, now()) FROM gone
  ON CONFLICT (object_key) DO NOTHING
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(created_at) FROM due) AS last_time,
       (SELECT object_key FROM due ORDER BY created_at DESC, object_key DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_session_logs
-- How much there is of session_logs, in S3, and what a day adds.
SELECT count(*) AS rows, coalesce(sum(bytes), 0) AS bytes, min(created_at) AS oldest_at,
       count(*) FILTER (WHERE created_at >= coalesce(%(now)s, now()) - interval '1 day') AS rows_a_day,
       coalesce(sum(bytes) FILTER (WHERE created_at >= coalesce(%(now)s, now()) - interval '1 day'), 0) AS bytes_a_day
FROM lifecycle_objects WHERE kind = 'SESSION_LOG'

-- name: due_messages
-- Sent messages (LIFE-5) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_messages WHERE sent_at < %(before)s ORDER BY sent_at LIMIT %(limit)s) AS due

-- name: delete_messages
-- Messages that were sent.
WITH due AS (
  SELECT sent_at, message_id FROM lifecycle_messages
  WHERE sent_at < %(before)s
    AND (sent_at, message_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY sent_at, message_id LIMIT %(limit)s
), gone AS (
  DELETE FROM lifecycle_messages AS one WHERE one.message_id = ANY (ARRAY(SELECT message_id FROM due))
  RETURNING pg_column_size(one.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(sent_at) FROM due) AS last_time,
       (SELECT message_id::text FROM due ORDER BY sent_at DESC, message_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_messages
-- How much there is of messages, and what a day adds.
WITH day AS (
  SELECT count(*) AS rows FROM lifecycle_messages WHERE sent_at >= coalesce(%(now)s, now()) - interval '1 day'
)
SELECT rows_of('lifecycle_messages') AS rows, bytes_of('lifecycle_messages') AS bytes,
       (SELECT min(sent_at) FROM lifecycle_messages) AS oldest_at, day.rows AS rows_a_day,
       day.rows * bytes_of('lifecycle_messages')::float8 / greatest(rows_of('lifecycle_messages'), 1) AS bytes_a_day
FROM day

-- name: due_tasks
-- Tasks that are over (LIFE-2) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_tasks WHERE ended_at < %(before)s ORDER BY ended_at LIMIT %(limit)s) AS due

-- name: delete_tasks
-- Tasks that are over; one with an object, an unsent message, a thread or a question is still needed.
WITH due AS (
  SELECT ended_at, task_id FROM lifecycle_tasks
  WHERE ended_at < %(before)s
    AND (ended_at, task_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY ended_at, task_id LIMIT %(limit)s
), gone AS (
  DELETE FROM lifecycle_tasks AS one WHERE one.task_id = ANY (ARRAY(SELECT task_id FROM due))
    AND NOT EXISTS (SELECT FROM lifecycle_objects o WHERE o.task_id = one.task_id)
    AND NOT EXISTS (SELECT FROM lifecycle_messages m WHERE m.task_id = one.task_id AND m.status = 'PENDING')
    AND NOT EXISTS (SELECT FROM lifecycle_threads t WHERE t.task_id = one.task_id)
    AND NOT EXISTS (SELECT FROM lifecycle_awaiting a WHERE a.task_id = one.task_id)
  RETURNING pg_column_size(one.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(ended_at) FROM due) AS last_time,
       (SELECT task_id::text FROM due ORDER BY ended_at DESC, task_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_tasks
-- How much there is of tasks, and what a day adds.
WITH day AS (
  SELECT count(*) AS rows FROM lifecycle_tasks WHERE ended_at >= coalesce(%(now)s, now()) - interval '1 day'
)
SELECT rows_of('lifecycle_tasks') AS rows, bytes_of('lifecycle_tasks') AS bytes,
       (SELECT min(ended_at) FROM lifecycle_tasks) AS oldest_at, day.rows AS rows_a_day,
       day.rows * bytes_of('lifecycle_tasks')::float8 / greatest(rows_of('lifecycle_tasks'), 1) AS bytes_a_day
FROM day

-- name: due_events
-- Events that are over (LIFE-1) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_events WHERE ended_at < %(before)s ORDER BY ended_at LIMIT %(limit)s) AS due

-- name: delete_events
-- Events that are over; one whose task is still there stays with it.
WITH due AS (
  SELECT ended_at, event_id FROM lifecycle_events
  WHERE ended_at < %(before)s
    AND (ended_at, event_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY ended_at, event_id LIMIT %(limit)s
), gone AS (
  DELETE FROM lifecycle_events AS one WHERE one.event_id = ANY (ARRAY(SELECT event_id FROM due))
    AND NOT EXISTS (SELECT FROM lifecycle_tasks t WHERE t.event_id = one.event_id)
  RETURNING pg_column_size(one.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(ended_at) FROM due) AS last_time,
       (SELECT event_id::text FROM due ORDER BY ended_at DESC, event_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_events
-- How much there is of events, and what a day adds.
WITH day AS (
  SELECT count(*) AS rows FROM lifecycle_events WHERE ended_at >= coalesce(%(now)s, now()) - interval '1 day'
)
SELECT rows_of('lifecycle_events') AS rows, bytes_of('lifecycle_events') AS bytes,
       (SELECT min(ended_at) FROM lifecycle_events) AS oldest_at, day.rows AS rows_a_day,
       day.rows * bytes_of('lifecycle_events')::float8 / greatest(rows_of('lifecycle_events'), 1) AS bytes_a_day
FROM day

-- name: due_seen
-- Ids of events (LIFE-6) past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM lifecycle_seen WHERE seen_at < %(before)s ORDER BY seen_at LIMIT %(limit)s) AS due

-- name: delete_seen
-- Ids of events that can't come again; that of an event which is still there stays.
WITH due AS (
  SELECT seen_at, event_id FROM lifecycle_seen
  WHERE seen_at < %(before)s
    AND (seen_at, event_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))
  ORDER BY seen_at, event_id LIMIT %(limit)s
), gone AS (
  DELETE FROM lifecycle_seen AS one WHERE one.event_id = ANY (ARRAY(SELECT event_id FROM due))
    AND NOT EXISTS (SELECT FROM lifecycle_events e WHERE e.event_id = one.event_id)
  RETURNING pg_column_size(one.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(seen_at) FROM due) AS last_time,
       (SELECT event_id::text FROM due ORDER BY seen_at DESC, event_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_seen
-- How much there is of seen, and what a day adds.
WITH day AS (
  SELECT count(*) AS rows FROM lifecycle_seen WHERE seen_at >= coalesce(%(now)s, now()) - interval '1 day'
)
SELECT rows_of('lifecycle_seen') AS rows, bytes_of('lifecycle_seen') AS bytes,
       (SELECT min(seen_at) FROM lifecycle_seen) AS oldest_at, day.rows AS rows_a_day,
       day.rows * bytes_of('lifecycle_seen')::float8 / greatest(rows_of('lifecycle_seen'), 1) AS bytes_a_day
FROM day

-- name: due_cleanups
-- Reports of the chamberlain past their period, counted no further than asked.
SELECT count(*) FROM (
  SELECT FROM cleanups WHERE ended_at < %(before)s ORDER BY ended_at LIMIT %(limit)s) AS due

-- name: delete_cleanups
-- Reports of the chamberlain, with their classes.
WITH due AS (
  SELECT ended_at, cleanup_id FROM cleanups
  WHERE ended_at < %(before)s
    AND (ended_at, cleanup_id) >
      (coalesce(%(after_time)s::timestamptz, '-infinity'),
       coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY ended_at, cleanup_id LIMIT %(limit)s
), gone AS (
  DELETE FROM cleanups AS one WHERE one.cleanup_id = ANY (ARRAY(SELECT cleanup_id FROM due))
  RETURNING pg_column_size(one.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT max(ended_at) FROM due) AS last_time,
       (SELECT cleanup_id::text FROM due ORDER BY ended_at DESC, cleanup_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_cleanups
-- How much there is of cleanups, and what a day adds.
WITH day AS (
  SELECT count(*) AS rows FROM cleanups WHERE ended_at >= coalesce(%(now)s, now()) - interval '1 day'
)
SELECT rows_of('cleanups') AS rows, bytes_of('cleanups') AS bytes,
       (SELECT min(ended_at) FROM cleanups) AS oldest_at, day.rows AS rows_a_day,
       day.rows * bytes_of('cleanups')::float8 / greatest(rows_of('cleanups'), 1) AS bytes_a_day
FROM day
