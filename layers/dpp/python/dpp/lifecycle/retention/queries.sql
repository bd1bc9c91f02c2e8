-- name: start
-- Starts a cleanup; no row if the day's cleanup was started before, or if another is running.
INSERT INTO cleanups (cleanup_id, kind, day, requested_by, over_breaker, status, started_at)
VALUES (%(cleanup_id)s, %(kind)s, %(day)s, %(requested_by)s, %(over_breaker)s, 'RUNNING', coalesce(%(now)s, now()))
ON CONFLICT DO NOTHING
RETURNING cleanup_id

-- name: add_class
-- Adds a class that waits to be processed.
INSERT INTO cleanup_classes (cleanup_id, class, position, status, before)
VALUES (%(cleanup_id)s, %(class)s, %(position)s, 'WAITING', %(before)s)

-- name: running
-- The running cleanup.
SELECT cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings
FROM cleanups WHERE status = 'RUNNING'

-- name: daily_was_started
-- Whether the day's cleanup was started.
SELECT 1 FROM cleanups WHERE kind = 'DAILY' AND day = %(day)s

-- name: cleanup
-- A cleanup by its id.
SELECT cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings
FROM cleanups WHERE cleanup_id = %(cleanup_id)s

-- name: latest
-- The latest cleanups, the newest first.
SELECT cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings
FROM cleanups ORDER BY sequence DESC LIMIT %(limit)s

-- name: classes
-- The classes of a cleanup in their order.
SELECT class, status, before, cursor_time, cursor_id, due, allowed, examined, deleted, bytes, errors, last_error,
       oldest_left_at
FROM cleanup_classes WHERE cleanup_id = %(cleanup_id)s ORDER BY position

-- name: history
-- How many rows of a class the last daily cleanups deleted, the newest first.
SELECT k.deleted FROM cleanups c JOIN cleanup_classes k USING (cleanup_id)
WHERE c.kind = 'DAILY' AND c.status = 'DONE' AND k.class = %(class)s AND k.status IN ('DONE', 'CAPPED')
ORDER BY c.sequence DESC LIMIT %(limit)s

-- name: let_through
-- Marks a class as running, with the breaker's counts.
UPDATE cleanup_classes SET status = 'RUNNING', due = %(due)s, allowed = %(allowed)s
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status = 'WAITING'

-- name: advance
-- Adds the counts of a batch, in the transaction that deletes its rows.
UPDATE cleanup_classes SET
  examined = examined + %(examined)s, deleted = deleted + %(deleted)s, bytes = bytes + %(bytes)s,
  cursor_time = %(cursor_time)s, cursor_id = %(cursor_id)s
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status = 'RUNNING'

-- name: end_class
-- Marks a class as finished.
UPDATE cleanup_classes SET
  status = %(status)s, oldest_left_at = %(oldest_left_at)s, due = coalesce(%(due)s, due),
  allowed = coalesce(%(allowed)s, allowed)
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status IN ('WAITING', 'RUNNING')

-- name: note_error
-- Counts a failed batch; after too many the class is FAILED.
UPDATE cleanup_classes SET
  errors = errors + 1, last_error = %(error)s,
  status = CASE WHEN errors + 1 >= %(most)s THEN 'FAILED' ELSE status END
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status IN ('WAITING', 'RUNNING')
RETURNING status

-- name: end
-- Marks the cleanup as done.
UPDATE cleanups SET status = 'DONE', ended_at = coalesce(%(now)s, now()), usage = %(usage)s, warnings = %(warnings)s
WHERE cleanup_id = %(cleanup_id)s AND status = 'RUNNING'

-- name: due_deletions
-- The keys of listed objects that are due, at most one call's worth.
SELECT object_key FROM lifecycle_deletions WHERE next_attempt_at <= coalesce(%(now)s, now())
ORDER BY next_attempt_at, object_key LIMIT %(limit)s

-- name: deleted_objects
-- Removes the keys of deleted objects.
DELETE FROM lifecycle_deletions WHERE object_key = ANY (%(keys)s)

-- name: refused_object
-- Postpones an object that S3 refused to delete, by at most a day.
UPDATE lifecycle_deletions SET
  attempts = attempts + 1, last_error = %(error)s,
  next_attempt_at = coalesce(%(now)s, now()) + least(interval '1 minute' * 2 ^ least(attempts, 20), interval '1 day')
WHERE object_key = %(key)s

-- name: deletion_backlog
-- The number of listed objects, of those that S3 refused before, and the age of the oldest in seconds.
SELECT count(*), count(*) FILTER (WHERE attempts > 0),
       coalesce(extract(epoch FROM coalesce(%(now)s, now()) - min(listed_at)), 0)::float8
FROM lifecycle_deletions

-- name: overdue_threads
-- Threads that have outlived their tasks (LIFE-10).
SELECT task_id FROM lifecycle_threads WHERE created_at < coalesce(%(now)s, now()) - make_interval(days => %(days)s)
ORDER BY created_at, task_id LIMIT 100

-- name: overdue_awaiting
-- Unanswered questions (LIFE-10).
SELECT task_id FROM lifecycle_awaiting WHERE created_at < coalesce(%(now)s, now()) - make_interval(days => %(days)s)
ORDER BY created_at, task_id LIMIT 100

-- name: stop_classes
-- An operator stops the cleanup.
UPDATE cleanup_classes SET status = 'STOPPED', last_error = %(reason)s
WHERE cleanup_id = %(cleanup_id)s AND status IN ('WAITING', 'RUNNING')

-- name: latest_of_classes
-- The final status of each class in its latest cleanup, of the last twenty cleanups.
SELECT DISTINCT ON (k.class) k.class, k.status
FROM (SELECT cleanup_id, sequence FROM cleanups ORDER BY sequence DESC LIMIT 20) AS c
JOIN cleanup_classes k USING (cleanup_id)
WHERE k.status NOT IN ('WAITING', 'RUNNING')
ORDER BY k.class, c.sequence DESC

-- name: age_of_daily
-- Seconds since the last daily cleanup ended.
SELECT extract(epoch FROM coalesce(%(now)s, now()) - max(ended_at))::float8 FROM cleanups WHERE kind = 'DAILY'
