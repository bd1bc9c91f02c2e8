-- name: known
-- Whether an event was taken in, for as long as that is remembered (LIFE-6).
SELECT EXISTS (SELECT FROM lifecycle_seen WHERE event_id = %(event_id)s)

-- name: outside_window
-- Whether its source's clock puts an event at the horizon or beyond, or too far ahead.
SELECT %(happened_at)s::timestamptz <= coalesce(%(now)s, now()) - make_interval(days => %(horizon_days)s)
  OR %(happened_at)s::timestamptz > coalesce(%(now)s, now()) + make_interval(hours => %(ahead_hours)s)

-- name: remember
-- Remember an event's id; no row where it is remembered already. Of two at once the second waits for the first.
INSERT INTO lifecycle_seen (event_id, seen_at) VALUES (%(event_id)s, coalesce(%(now)s, now()))
ON CONFLICT (event_id) DO NOTHING
RETURNING event_id

-- name: insert_event
-- An event begins (LIFE-1).
INSERT INTO lifecycle_events (event_id, source, kind, arrived_by, payload, happened_at, status, created_at)
VALUES (%(event_id)s, %(source)s, %(kind)s, %(arrived_by)s, %(payload)s, %(happened_at)s, 'PENDING',
  coalesce(%(now)s, now()))
