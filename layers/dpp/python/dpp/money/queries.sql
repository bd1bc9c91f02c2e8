-- name: create_tenant
-- Create a tenant; a repetition changes nothing.
INSERT INTO tenants (tenant_id, display_name, rate_limit_per_minute)
VALUES (%(tenant_id)s, %(display_name)s, %(rate_limit_per_minute)s)
ON CONFLICT (tenant_id) DO NOTHING

-- name: lock_credits
-- One transaction at a time adds up or adds to a tenant's credits.
SELECT 1 FROM tenants WHERE tenant_id = %(tenant_id)s FOR NO KEY UPDATE

-- name: insert_credit
-- One row per credit id, and never a sum that the ledger can't hold; returns no row if either forbids the insert.
INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason)
SELECT %(credit_id)s, %(tenant_id)s, %(amount_usd_micros)s, %(reason)s
WHERE %(amount_usd_micros)s + (
  SELECT coalesce(sum(amount_usd_micros), 0) FROM budget_credits WHERE tenant_id = %(tenant_id)s
) <= %(max_usd_micros)s
ON CONFLICT (credit_id) DO NOTHING
RETURNING credit_id

-- name: select_credit
-- The credit of an id.
SELECT tenant_id, amount_usd_micros FROM budget_credits WHERE credit_id = %(credit_id)s

-- name: position
-- The Postgres side of the ledger identity, in one snapshot. Charges are added up as runs end, and stay when the runs
-- are deleted (D2, LIFE-8).
SELECT
  (SELECT coalesce(sum(amount_usd_micros), 0) FROM budget_credits c WHERE c.tenant_id = t.tenant_id),
  (SELECT coalesce(sum(charges_usd_micros), 0) FROM ledger_charges k WHERE k.tenant_id = t.tenant_id),
  (SELECT coalesce(sum(reservation_max_cost_usd_micros), 0) FROM runs r
    WHERE r.tenant_id = t.tenant_id AND r.money_state IN ('RESERVED', 'DISPUTED'))
FROM tenants t
WHERE t.tenant_id = %(tenant_id)s

-- name: tenants_after
-- Keyset page of tenants, for jobs that visit all of them.
SELECT tenant_id FROM tenants WHERE tenant_id > %(after)s ORDER BY tenant_id LIMIT %(limit)s

-- name: tenant_at
-- A tenant after the given one, by its share of the way to the last: from 0, the next, to below 1.
SELECT tenant_id FROM tenants WHERE tenant_id > %(after)s ORDER BY tenant_id
OFFSET floor(%(share)s::float8 * (SELECT count(*) FROM tenants WHERE tenant_id > %(after)s))::bigint LIMIT 1

-- name: has_credits
-- Whether a tenant ever had a credit.
SELECT 1 FROM budget_credits WHERE tenant_id = %(tenant_id)s LIMIT 1

-- name: bound_the_wait
-- A rebuild that gets no lock gives up instead of blocking the queries behind it.
SET LOCAL lock_timeout = '5s'

-- name: stop_writes_to_runs
-- Inserts, claims and commits wait until the transaction ends; readers don't.
LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE

-- name: books
-- All that Postgres knows about a tenant's money, in one snapshot. Amounts are text in JSON, because Lua reads JSON
-- numbers as doubles.
SELECT
  (SELECT coalesce(sum(amount_usd_micros), 0) FROM budget_credits c WHERE c.tenant_id = t.tenant_id)
    - (SELECT coalesce(sum(charges_usd_micros), 0) FROM ledger_charges k WHERE k.tenant_id = t.tenant_id),
  (SELECT coalesce(jsonb_agg(jsonb_build_array(run_id, reservation_max_cost_usd_micros::text)), '[]') FROM runs r
    WHERE r.tenant_id = t.tenant_id AND r.money_state IN ('RESERVED', 'DISPUTED')),
  (SELECT coalesce(jsonb_agg(run_id), '[]') FROM runs r
    WHERE r.tenant_id = t.tenant_id AND r.money_state IN ('SETTLED', 'REFUNDED')
      AND r.run_id = ANY(%(run_ids)s::uuid[])),
  (SELECT coalesce(jsonb_agg(jsonb_build_array(credit_id, amount_usd_micros::text)), '[]') FROM budget_credits c
    WHERE c.tenant_id = t.tenant_id AND (%(credits_since_seconds)s::float8 IS NULL
      OR c.created_at > now() - make_interval(secs => %(credits_since_seconds)s::float8)))
FROM tenants t
WHERE t.tenant_id = %(tenant_id)s

-- name: due_audits
-- The tenants whose last audit is oldest, those never audited first.
SELECT t.tenant_id FROM tenants t LEFT JOIN ledger_audits a USING (tenant_id)
WHERE a.audited_at IS NULL
  OR a.audited_at <= coalesce(%(now)s, now()) - make_interval(secs => %(every_seconds)s)
ORDER BY a.audited_at NULLS FIRST, t.tenant_id LIMIT %(limit)s

-- name: record_audit
-- The result of a tenant's last audit.
INSERT INTO ledger_audits (tenant_id, audited_at, verdict, drift_usd_micros, detail)
VALUES (%(tenant_id)s, coalesce(%(now)s, now()), %(verdict)s, %(drift_usd_micros)s, %(detail)s)
ON CONFLICT (tenant_id) DO UPDATE SET
  audited_at = EXCLUDED.audited_at, verdict = EXCLUDED.verdict, drift_usd_micros = EXCLUDED.drift_usd_micros,
  detail = EXCLUDED.detail

-- name: disputed_ledgers
-- How many tenants' ledgers wait for an operator.
SELECT count(*) FROM ledger_audits WHERE verdict = 'DISPUTED'

-- name: closed_since
-- Keyset page of the runs that ended while their receipts last, with their charge.
SELECT run_id, money_state, actual_cost_usd_micros, created_at FROM runs
WHERE tenant_id = %(tenant_id)s AND finalize_stage = 'COMMITTED'
  AND created_at > coalesce(%(now)s, now()) - make_interval(secs => %(age_seconds)s)
  AND (created_at, run_id) > (%(after_time)s, %(after_id)s)
ORDER BY created_at, run_id LIMIT %(limit)s

-- name: record_rebuild
-- Record a rebuild; append-only.
INSERT INTO ledger_rebuilds (tenant_id, reason, before_usd_micros, balance_usd_micros, missing_reservations)
VALUES (%(tenant_id)s, %(reason)s, %(before_usd_micros)s, %(balance_usd_micros)s, %(missing_reservations)s)

-- name: rebuilds
-- The rebuilds, newest first.
SELECT tenant_id, reason, before_usd_micros, balance_usd_micros, missing_reservations, created_at FROM ledger_rebuilds
WHERE %(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s
ORDER BY rebuild_id DESC LIMIT %(limit)s
