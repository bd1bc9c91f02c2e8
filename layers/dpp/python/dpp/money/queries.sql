-- name: create_tenant
-- A tenant is created once; a second time changes nothing.
INSERT INTO tenants (tenant_id, display_name, rate_limit_per_minute)
VALUES (%(tenant_id)s, %(display_name)s, %(rate_limit_per_minute)s)
ON CONFLICT (tenant_id) DO NOTHING

-- name: lock_credits
-- A tenant's credits are added up and added to by one at a time.
SELECT 1 FROM tenants WHERE tenant_id = %(tenant_id)s FOR NO KEY UPDATE

-- name: insert_credit
-- One row a credit id, and never a sum that the ledger can't hold; no row comes back where either forbids it.
INSERT INTO budget_credits (credit_id, tenant_id, amount_usd_micros, reason)
SELECT %(credit_id)s, %(tenant_id)s, %(amount_usd_micros)s, %(reason)s
WHERE %(amount_usd_micros)s + (
  SELECT coalesce(sum(amount_usd_micros), 0) FROM budget_credits WHERE tenant_id = %(tenant_id)s
) <= %(max_usd_micros)s
ON CONFLICT (credit_id) DO NOTHING
RETURNING credit_id

-- name: select_credit
-- What a credit id stands for.
SELECT tenant_id, amount_usd_micros FROM budget_credits WHERE credit_id = %(credit_id)s

-- name: position
-- The Postgres side of the ledger identity, in one snapshot.
SELECT
  (SELECT coalesce(sum(amount_usd_micros), 0) FROM budget_credits c WHERE c.tenant_id = t.tenant_id),
  (SELECT coalesce(sum(actual_cost_usd_micros), 0) FROM runs r
    WHERE r.tenant_id = t.tenant_id AND r.money_state = 'SETTLED'),
  (SELECT coalesce(sum(reservation_max_cost_usd_micros), 0) FROM runs r
    WHERE r.tenant_id = t.tenant_id AND r.money_state IN ('RESERVED', 'DISPUTED'))
FROM tenants t
WHERE t.tenant_id = %(tenant_id)s

-- name: tenants_after
-- Keyset page of tenants, for jobs that visit all of them.
SELECT tenant_id FROM tenants WHERE tenant_id > %(after)s ORDER BY tenant_id LIMIT %(limit)s

-- name: has_credits
-- Whether a tenant was ever given money.
SELECT 1 FROM budget_credits WHERE tenant_id = %(tenant_id)s LIMIT 1

-- name: credit_ids
-- Which credits the balance must hold.
SELECT credit_id FROM budget_credits WHERE tenant_id = %(tenant_id)s

-- name: bound_the_wait
-- A rebuild that gets no lock gives up instead of holding up everyone behind it.
SET LOCAL lock_timeout = '5s'

-- name: stop_writes_to_runs
-- Readers go on; inserts, claims and commits wait until the transaction ends.
LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE

-- name: open_runs
-- Whose reservations are open, and how much.
SELECT run_id, reservation_max_cost_usd_micros FROM runs
WHERE tenant_id = %(tenant_id)s AND money_state IN ('RESERVED', 'DISPUTED')

-- name: closed_among
-- Which of these runs have been settled or refunded: a reservation of theirs is a leftover.
SELECT run_id FROM runs
WHERE tenant_id = %(tenant_id)s AND money_state IN ('SETTLED', 'REFUNDED') AND run_id = ANY(%(run_ids)s::uuid[])
