-- name: clock
-- Postgres's clock (D1).
SELECT coalesce(%(now)s, now())

-- name: begin
-- A cleanup begins; no row where this day's has been, or another is under way.
INSERT INTO cleanups (cleanup_id, kind, day, requested_by, over_breaker, status, started_at)
VALUES (%(cleanup_id)s, %(kind)s, %(day)s, %(requested_by)s, %(over_breaker)s, 'RUNNING', coalesce(%(now)s, now()))
ON CONFLICT DO NOTHING
RETURNING cleanup_id

-- name: begin_class
-- A class of it waits for its turn.
INSERT INTO cleanup_classes (cleanup_id, class, position, status, before)
VALUES (%(cleanup_id)s, %(class)s, %(position)s, 'WAITING', %(before)s)

-- name: running
-- The cleanup that is under way.
SELECT cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings
FROM cleanups WHERE status = 'RUNNING'

-- name: daily_was_begun
-- Whether a day's cleanup was begun.
SELECT 1 FROM cleanups WHERE kind = 'DAILY' AND day = %(day)s

-- name: cleanup
-- One cleanup.
SELECT cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings
FROM cleanups WHERE cleanup_id = %(cleanup_id)s

-- name: latest
-- The latest cleanups, the newest first.
SELECT cleanup_id, kind, day, requested_by, over_breaker, status, started_at, ended_at, usage, warnings
FROM cleanups ORDER BY sequence DESC LIMIT %(limit)s

-- name: classes
-- The classes of a cleanup, in their order.
SELECT class, status, before, cursor_time, cursor_id, due, allowed, examined, deleted, bytes, errors, last_error,
       oldest_left_at
FROM cleanup_classes WHERE cleanup_id = %(cleanup_id)s ORDER BY position

-- name: history
-- What the last daily cleanups deleted of a class, the newest first.
SELECT k.deleted FROM cleanups c JOIN cleanup_classes k USING (cleanup_id)
WHERE c.kind = 'DAILY' AND c.status = 'DONE' AND k.class = %(class)s AND k.status IN ('DONE', 'CAPPED')
ORDER BY c.sequence DESC LIMIT %(limit)s

-- name: let_through
-- The breaker lets a class through.
UPDATE cleanup_classes SET status = 'RUNNING', due = %(due)s, allowed = %(allowed)s
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status = 'WAITING'

-- name: advance
-- What a batch did, in the transaction of what it deleted.
UPDATE cleanup_classes SET
  examined = examined + %(examined)s, deleted = deleted + %(deleted)s, bytes = bytes + %(bytes)s,
  cursor_time = %(cursor_time)s, cursor_id = %(cursor_id)s
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status = 'RUNNING'

-- name: end_class
-- A class is done, or as far as this cleanup goes with it.
UPDATE cleanup_classes SET
  status = %(status)s, oldest_left_at = %(oldest_left_at)s, due = coalesce(%(due)s, due),
  allowed = coalesce(%(allowed)s, allowed)
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status IN ('WAITING', 'RUNNING')

-- name: note_error
-- A batch failed; after so many of a class, this cleanup goes on without it.
UPDATE cleanup_classes SET
  errors = errors + 1, last_error = %(error)s,
  status = CASE WHEN errors + 1 >= %(most)s THEN 'FAILED' ELSE status END
WHERE cleanup_id = %(cleanup_id)s AND class = %(class)s AND status IN ('WAITING', 'RUNNING')
RETURNING status

-- name: end
-- The cleanup is done.
UPDATE cleanups SET status = 'DONE', ended_at = coalesce(%(now)s, now()), usage = %(usage)s, warnings = %(warnings)s
WHERE cleanup_id = %(cleanup_id)s AND status = 'RUNNING'

-- name: due_deletions
-- Objects whose rows are gone, as many as S3 takes in a call.
SELECT object_key FROM lifecycle_deletions WHERE next_attempt_at <= coalesce(%(now)s, now())
ORDER BY next_attempt_at, object_key LIMIT %(limit)s

-- name: deleted_objects
-- S3 has deleted them.
DELETE FROM lifecycle_deletions WHERE object_key = ANY (%(keys)s)

-- name: refused_object
-- S3 has not; again later, at most a day.
UPDATE lifecycle_deletions SET
  attempts = attempts + 1, last_error = %(error)s,
  next_attempt_at = coalesce(%(now)s, now()) + least(interval '1 minute' * 2 ^ least(attempts, 20), interval '1 day')
WHERE object_key = %(key)s

-- name: deletion_backlog
-- What S3 has yet to delete: how many objects, how many of them it refused before, and the age of the oldest in seconds.
SELECT count(*), count(*) FILTER (WHERE attempts > 0),
       coalesce(extract(epoch FROM coalesce(%(now)s, now()) - min(listed_at)), 0)::float8
FROM lifecycle_deletions

-- name: overdue_threads
-- LIFE-10: mappings that outlived any task; the first of them.
SELECT task_id FROM lifecycle_threads WHERE created_at < coalesce(%(now)s, now()) - make_interval(days => %(days)s)
ORDER BY created_at, task_id LIMIT 100

-- name: overdue_awaiting
-- LIFE-10: questions that nobody answered; the first of them.
SELECT task_id FROM lifecycle_awaiting WHERE created_at < coalesce(%(now)s, now()) - make_interval(days => %(days)s)
ORDER BY created_at, task_id LIMIT 100

-- name: stop_classes
-- An operator stops the cleanup: what was not ended is not gone on with.
UPDATE cleanup_classes SET status = 'STOPPED', last_error = %(reason)s
WHERE cleanup_id = %(cleanup_id)s AND status IN ('WAITING', 'RUNNING')

-- name: latest_of_classes
-- What became of each class the last time that it was over, of the last twenty cleanups.
SELECT DISTINCT ON (k.class) k.class, k.status
FROM (SELECT cleanup_id, sequence FROM cleanups ORDER BY sequence DESC LIMIT 20) AS c
JOIN cleanup_classes k USING (cleanup_id)
WHERE k.status NOT IN ('WAITING', 'RUNNING')
ORDER BY k.class, c.sequence DESC

-- name: age_of_daily
-- For how many seconds the last daily cleanup has been over.
SELECT extract(epoch FROM coalesce(%(now)s, now()) - max(ended_at))::float8 FROM cleanups WHERE kind = 'DAILY'
