-- name: take_lease
-- The lease for whoever is first, and for the next one when a holder's time is over.
INSERT INTO exclusive_leases (name, token, holder, started_at, expires_at)
VALUES (%(name)s, %(token)s, %(holder)s, coalesce(%(now)s, now()),
        coalesce(%(now)s, now()) + make_interval(secs => %(ttl_seconds)s))
ON CONFLICT (name) DO UPDATE SET
  token = excluded.token, holder = excluded.holder,
  started_at = excluded.started_at, expires_at = excluded.expires_at
WHERE exclusive_leases.expires_at <= excluded.started_at
RETURNING token

-- name: holder_of_lease
-- Who has it, for those who have not.
SELECT holder, started_at FROM exclusive_leases WHERE name = %(name)s

-- name: lock_lease
-- Keep the lease for this transaction, if it is still ours: nobody takes it over before the commit.
SELECT 1 FROM exclusive_leases WHERE name = %(name)s AND token = %(token)s FOR UPDATE

-- name: give_back_lease
-- Only our own.
DELETE FROM exclusive_leases WHERE name = %(name)s AND token = %(token)s
