-- name: record_heartbeat
-- A role is at work (LIFE-11); overwritten, never older than it was.
INSERT INTO lifecycle_heartbeats (role, beat_at) VALUES (%(role)s, coalesce(%(now)s, now()))
ON CONFLICT (role) DO UPDATE SET beat_at = greatest(lifecycle_heartbeats.beat_at, excluded.beat_at)

-- name: ages
-- For how many seconds each role has been silent that was ever heard.
SELECT role, greatest(extract(epoch FROM coalesce(%(now)s, now()) - beat_at), 0)::float8 FROM lifecycle_heartbeats
ORDER BY role
