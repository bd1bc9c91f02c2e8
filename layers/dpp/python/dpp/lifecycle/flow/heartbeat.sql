-- name: record_heartbeat
-- Records a heartbeat (LIFE-11); an older one never replaces a newer one.
INSERT INTO lifecycle_heartbeats (role, beat_at) VALUES (%(role)s, coalesce(%(now)s, now()))
ON CONFLICT (role) DO UPDATE SET beat_at = greatest(lifecycle_heartbeats.beat_at, excluded.beat_at)

-- name: ages
-- Seconds since the last heartbeat of each role.
SELECT role, greatest(extract(epoch FROM coalesce(%(now)s, now()) - beat_at), 0)::float8 FROM lifecycle_heartbeats
ORDER BY role
