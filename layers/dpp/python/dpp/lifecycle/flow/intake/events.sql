-- name: known
-- Whether an event was accepted, as long as its id is kept (LIFE-6).
SELECT EXISTS (SELECT FROM lifecycle_seen WHERE event_id = %(event_id)s)

-- name: outside_window
-- Whether an event, by its source's clock, is at the horizon or older, or too far in the future.
SELECT %(happened_at)s::timestamptz <= coalesce(%(now)s, now()) - make_interval(days => %(horizon_days)s)
  OR %(happened_at)s::timestamptz > coalesce(%(now)s, now()) + make_interval(hours => %(ahead_hours)s)

-- name: remember
-- Marks an id as seen; no row if it is marked already. Of two concurrent calls the second waits for the first.
INSERT INTO lifecycle_seen (event_id, seen_at) VALUES (%(event_id)s, coalesce(%(now)s, now()))
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id

-- name: insert_event
-- Writes a new event (LIFE-1).
INSERT INTO lifecycle_events (event_id, source, kind, arrived_by, payload, happened_at, status, created_at)
VALUES (%(event_id)s, %(source)s, %(kind)s, %(arrived_by)s, %(payload)s, %(happened_at)s, 'PENDING',
  coalesce(%(now)s, now()))
