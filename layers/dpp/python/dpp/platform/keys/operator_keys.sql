-- name: insert_operator_key
-- Store a key by its hash.
INSERT INTO operator_keys (key_id, operator_id, key_hash, label)
VALUES (%(key_id)s, %(owner_id)s, %(key_hash)s, %(label)s)

-- name: select_operator_key
-- A key by primary key; whether it is usable, and whether its last use is stale.
SELECT key_id, operator_id, key_hash, status = 'ACTIVE' AS usable,
       last_used_at IS NULL
         OR last_used_at < coalesce(%(now)s, now()) - interval '10 minutes' AS stale_use
FROM operator_keys WHERE key_id = %(key_id)s

-- name: select_operator_keys
-- All keys, without hashes.
SELECT key_id, operator_id, label, status, created_at, last_used_at
FROM operator_keys ORDER BY operator_id, created_at DESC, key_id

-- name: revoke_operator_key
-- Revoke a key; repeatable. Zero rows: there is no such key.
UPDATE operator_keys SET status = 'REVOKED' WHERE key_id = %(key_id)s
RETURNING operator_id

-- name: touch_operator_key
-- Checks the age again, so that concurrent requests write one row version.
UPDATE operator_keys SET last_used_at = coalesce(%(now)s, now())
WHERE key_id = %(key_id)s
  AND (last_used_at IS NULL OR last_used_at < coalesce(%(now)s, now()) - interval '10 minutes')
