-- name: insert_api_key
-- Store a key by its hash.
INSERT INTO api_keys (key_id, tenant_id, key_hash, label)
VALUES (%(key_id)s, %(owner_id)s, %(key_hash)s, %(label)s)

-- name: select_api_key
-- A key with its tenant, by primary key; whether it is usable, and whether its last use is stale.
SELECT k.key_id, k.tenant_id, k.key_hash,
       k.status = 'ACTIVE' AND t.status = 'ACTIVE' AS usable,
       t.rate_limit_per_minute,
       k.last_used_at IS NULL
         OR k.last_used_at < coalesce(%(now)s, now()) - interval '10 minutes' AS stale_use
FROM api_keys k JOIN tenants t USING (tenant_id)
WHERE k.key_id = %(key_id)s

-- name: select_keys_of_tenant
-- A tenant's keys for an operator, newest first, without hashes.
SELECT key_id, tenant_id, label, status, created_at, last_used_at
FROM api_keys WHERE tenant_id = %(tenant_id)s
ORDER BY created_at DESC, key_id

-- name: revoke_api_key
-- Revoke a key; repeatable. Zero rows: there is no such key.
UPDATE api_keys SET status = 'REVOKED' WHERE key_id = %(key_id)s
RETURNING tenant_id

-- name: touch_api_key
-- Checks the age again, so that concurrent requests write one row version.
UPDATE api_keys SET last_used_at = coalesce(%(now)s, now())
WHERE key_id = %(key_id)s
  AND (last_used_at IS NULL OR last_used_at < coalesce(%(now)s, now()) - interval '10 minutes')

-- name: select_active_tenant
-- The rate limit of an active tenant, for a function that acts for it without a key.
SELECT rate_limit_per_minute FROM tenants WHERE tenant_id = %(tenant_id)s AND status = 'ACTIVE'
