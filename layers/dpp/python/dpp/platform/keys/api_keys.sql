-- name: insert_api_key
-- A key is stored by its hash alone.
INSERT INTO api_keys (key_id, tenant_id, key_hash, label)
VALUES (%(key_id)s, %(tenant_id)s, %(key_hash)s, %(label)s)

-- name: select_api_key
-- A key with its tenant, by primary key; whether it may be used, and whether its last use is worth writing.
SELECT k.key_id, k.tenant_id, k.key_hash,
       k.status = 'ACTIVE' AND t.status = 'ACTIVE' AS usable,
       t.rate_limit_per_minute,
       k.last_used_at IS NULL
         OR k.last_used_at < coalesce(%(now)s, now()) - interval '10 minutes' AS stale_use
FROM api_keys k JOIN tenants t USING (tenant_id)
WHERE k.key_id = %(key_id)s

-- name: select_keys_of_tenant
-- What an operator may see of a tenant's keys, the newest first; the hash is nobody's business.
SELECT key_id, tenant_id, label, status, created_at, last_used_at
FROM api_keys WHERE tenant_id = %(tenant_id)s
ORDER BY created_at DESC, key_id

-- name: revoke_api_key
-- Repeatable: a key that is revoked stays so. Zero rows: there is no such key.
UPDATE api_keys SET status = 'REVOKED' WHERE key_id = %(key_id)s
RETURNING tenant_id

-- name: touch_api_key
-- Guarded by age again, so that many at once write one row version.
UPDATE api_keys SET last_used_at = coalesce(%(now)s, now())
WHERE key_id = %(key_id)s
  AND (last_used_at IS NULL OR last_used_at < coalesce(%(now)s, now()) - interval '10 minutes')

-- name: select_active_tenant
-- How much an active tenant may ask, for a function of ours that calls for it without a key.
SELECT rate_limit_per_minute FROM tenants WHERE tenant_id = %(tenant_id)s AND status = 'ACTIVE'
