-- name: take_lease
-- Take the lease if it is free or expired.
INSERT INTO exclusive_leases (name, token, holder, started_at, expires_at)
VALUES (%(name)s, %(token)s, %(holder)s, coalesce(%(now)s, now()),
        coalesce(%(now)s, now()) + make_interval(secs => %(ttl_seconds)s))
ON CONFLICT (name) DO UPDATE SET
  token = excluded.token, holder = excluded.holder,
  started_at = excluded.started_at, expires_at = excluded.expires_at
WHERE exclusive_leases.expires_at <= excluded.started_at
RETURNING token

-- name: holder_of_lease
-- The current holder, for the error message.
SELECT holder, started_at FROM exclusive_leases WHERE name = %(name)s

-- name: lock_lease
-- Lock the lease for this transaction if the token still holds it, so that there is no takeover before the commit.
SELECT 1 FROM exclusive_leases WHERE name = %(name)s AND token = %(token)s FOR UPDATE

-- name: release_lease
-- Release the lease if the token still holds it.
DELETE FROM exclusive_leases WHERE name = %(name)s AND token = %(token)s
