-- name: source
-- The poll state of a source, and whether the next poll is due.
SELECT etag, complete_until, failures, next_poll_at <= coalesce(%(now)s, now()) FROM lifecycle_sources
WHERE source = %(source)s

-- name: polled
-- Records a complete poll (LIFE-7): all events up to its start are accepted. `complete_until` never decreases.
INSERT INTO lifecycle_sources AS s (source, etag, complete_until, polled_at, next_poll_at, failures)
VALUES (%(source)s, %(etag)s, %(started_at)s, %(started_at)s,
  %(started_at)s::timestamptz + make_interval(secs => %(wait_seconds)s), 0)
ON CONFLICT (source) DO UPDATE SET
  etag = excluded.etag, complete_until = greatest(s.complete_until, excluded.complete_until),
  polled_at = excluded.polled_at, next_poll_at = excluded.next_poll_at, failures = 0, last_error = NULL

-- name: failed
-- Records a failed poll: after a pause the next one starts from the same state.
INSERT INTO lifecycle_sources AS s (source, polled_at, next_poll_at, failures, last_error)
VALUES (%(source)s, %(started_at)s,
  %(started_at)s::timestamptz + make_interval(secs => %(wait_seconds)s), 1, %(error)s)
ON CONFLICT (source) DO UPDATE SET
  polled_at = excluded.polled_at, next_poll_at = excluded.next_poll_at, failures = s.failures + 1,
  last_error = excluded.last_error

-- name: all
-- All sources that were polled.
SELECT source, etag, complete_until, polled_at, next_poll_at, failures, last_error FROM lifecycle_sources ORDER BY source
