-- A statement that names its run tests the run's state and owner in a form that matches no index. Runs under way and
-- runs of a new tenant look negligible to a planner whose statistics are from a quiet hour: it would read all of them
-- instead of the one, which takes long once they are many.

-- name: run_of_owner
-- The look-up includes the owner: another tenant's run and no run are the same zero rows (RUN-11).
SELECT {run.*}, retention_until <= coalesce(%(now)s, now()) AS is_past_retention
FROM runs WHERE run_id = %(run_id)s AND tenant_id IS NOT DISTINCT FROM %(tenant_id)s

-- name: run
-- A run by id and tenant, for the jobs.
SELECT {run.*} FROM runs WHERE run_id = %(run_id)s AND tenant_id IS NOT DISTINCT FROM %(tenant_id)s

-- name: run_with_inputs
-- A run for its worker, with the inputs of its pack (D8), in one round trip.
SELECT {run.*}, inputs FROM runs LEFT JOIN run_inputs USING (run_id)
WHERE run_id = %(run_id)s AND tenant_id IS NOT DISTINCT FROM %(tenant_id)s

-- name: start_processing
-- QUEUED to PROCESSING with a lease, by version (RUN-16), unless its execution is disabled (TIX-1).
UPDATE runs SET
  status = 'PROCESSING', lease_token = %(lease_token)s,
  lease_expires_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease_ttl_seconds)s),
  enqueued_at = coalesce(enqueued_at, %(now)s, now()),
  version = version + 1, updated_at = coalesce(%(now)s, now())
WHERE run_id = %(run_id)s AND version = %(version)s AND status = 'QUEUED' AND num_nonnulls(finalize_stage) = 0
  AND NOT ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)
RETURNING {run.*}

-- name: park
-- Park a run that was not started because its execution was disabled, and that has not changed since (TIX-1). It is as if
-- never sent, so reconcile sends it once execution is enabled (D5). The new version rejects a start or a mark still under way.
UPDATE runs SET enqueued_at = NULL, version = version + 1, updated_at = coalesce(%(now)s, now())
WHERE run_id = %(run_id)s AND version = %(version)s AND status = 'QUEUED' AND num_nonnulls(finalize_stage) = 0
RETURNING {run.*}

-- name: extend_lease
-- A heartbeat: only by the lease holder, only before a claim, and never for an expired lease (RUN-16).
UPDATE runs SET
  lease_expires_at = coalesce(%(now)s, now()) + make_interval(secs => %(lease_ttl_seconds)s)
WHERE run_id = %(run_id)s AND lease_token = %(lease_token)s AND status = 'PROCESSING'
  AND num_nonnulls(finalize_stage) = 0 AND lease_expires_at > coalesce(%(now)s, now())

-- columns: intent
finalize_token = %(finalize_token)s, finalize_claimed_at = coalesce(%(now)s, now()),
finalize_outcome = %(outcome)s, finalize_money_state = %(money_state)s,
finalize_charge_usd_micros = %(charge)s, tokens_consumed = %(tokens_consumed)s,
result_bucket = %(result_bucket)s, result_key = %(result_key)s, result_sha256 = %(result_sha256)s,
result_parts = %(result_parts)s,
last_error_reason_code = %(reason_code)s, last_error_detail = %(detail)s,
version = version + 1, updated_at = coalesce(%(now)s, now())

-- name: claim
-- Stage one of the finalize (RUN-19): one of all callers gets the row back, with its intent recorded (D3).
UPDATE runs SET finalize_stage = 'CLAIMED', {intent.*}
WHERE run_id = %(run_id)s AND version = %(version)s AND status = %(expected_status)s
  AND num_nonnulls(finalize_stage) = 0
  AND lease_token IS NOT DISTINCT FROM %(lease_token)s
  AND (%(lease_must_have_expired)s = false OR lease_expires_at < coalesce(%(now)s, now())
    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')
  AND created_at <= coalesce(%(now)s, now()) - make_interval(secs => %(minimum_age_seconds)s)
RETURNING {run.*}

-- name: of_finalize_token
-- The run as the holder of this token left it, for a step whose reply was lost.
SELECT {run.*} FROM runs
WHERE run_id = %(run_id)s AND finalize_token = %(finalize_token)s AND finalize_stage = %(stage)s

-- name: reclaim
-- Take over a claim that was never committed, with its intent kept or corrected (RUN-22).
UPDATE runs SET {intent.*}
WHERE run_id = %(run_id)s AND version = %(version)s AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')
  AND finalize_claimed_at < coalesce(%(now)s, now()) - make_interval(secs => %(stuck_after_seconds)s)
RETURNING {run.*}

-- name: commit
-- Stage two (RUN-19): the run ends exactly as its intent says, only by the holder of the claim; its inputs become due.
WITH ended AS (
  UPDATE runs SET
    status = finalize_outcome, money_state = finalize_money_state,
    actual_cost_usd_micros = finalize_charge_usd_micros, finalize_stage = 'COMMITTED',
    idempotency_released_at = CASE WHEN %(release_idempotency_key)s THEN coalesce(%(now)s, now()) END,
    version = version + 1, updated_at = coalesce(%(now)s, now())
  WHERE run_id = %(run_id)s AND version = %(version)s AND finalize_token = %(finalize_token)s
    AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')
  RETURNING {run.*}
), due AS (
  UPDATE run_inputs SET purge_after = ended.updated_at + interval '1 hour'
  FROM ended WHERE run_inputs.run_id = ended.run_id
)
SELECT {run.*} FROM ended

-- name: dispute
-- The charge can't be proved: the run stops here until an operator decides (D3).
UPDATE runs SET
  money_state = 'DISPUTED', last_error_detail = %(detail)s,
  version = version + 1, updated_at = coalesce(%(now)s, now())
WHERE run_id = %(run_id)s AND version = %(version)s AND finalize_token = %(finalize_token)s
  AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'RESERVED')
RETURNING {run.*}

-- name: resolve
-- An operator decides about a disputed run (D3): it is claimed again, with the intent that was decided.
UPDATE runs SET money_state = 'RESERVED', {intent.*}
WHERE run_id = %(run_id)s AND version = %(version)s AND (finalize_stage, money_state) IS NOT DISTINCT FROM ('CLAIMED', 'DISPUTED')
RETURNING {run.*}

-- name: disputed
-- The runs that wait for an operator (D3).
SELECT {run.*} FROM runs WHERE money_state = 'DISPUTED' ORDER BY tenant_id, run_id LIMIT %(limit)s

-- name: run_by_id
-- A run by its id alone, for an operator.
SELECT {run.*} FROM runs WHERE run_id = %(run_id)s

-- name: page_expired_leases
-- PROCESSING with an expired lease, oldest first (RUN-20, RUN-22); keyset on (lease_expires_at, run_id). A lease of more
-- than an hour is invalid: no worker can have taken it, and waiting for its end would block the client's money as long.
SELECT {run.*}, lease_expires_at AS page_time FROM runs
WHERE status = 'PROCESSING' AND finalize_stage IS NULL
  AND (lease_expires_at < coalesce(%(now)s, now())
    OR lease_expires_at > coalesce(%(now)s, now()) + interval '1 hour')
  AND (lease_expires_at, run_id) > (%(after_time)s, %(after_id)s)
ORDER BY lease_expires_at, run_id LIMIT %(limit)s

-- name: page_waiting
-- QUEUED for longer than a reservation lasts, oldest first (RUN-21).
SELECT {run.*}, created_at AS page_time FROM runs
WHERE status = 'QUEUED' AND finalize_stage IS NULL
  AND created_at <= coalesce(%(now)s, now()) - make_interval(secs => %(age_seconds)s)
  AND (created_at, run_id) > (%(after_time)s, %(after_id)s)
ORDER BY created_at, run_id LIMIT %(limit)s

-- name: page_stuck_claims
-- CLAIMED for too long, oldest first (RUN-22).
SELECT {run.*}, finalize_claimed_at AS page_time FROM runs
WHERE finalize_stage = 'CLAIMED' AND money_state = 'RESERVED'
  AND finalize_claimed_at < coalesce(%(now)s, now()) - make_interval(secs => %(age_seconds)s)
  AND (finalize_claimed_at, run_id) > (%(after_time)s, %(after_id)s)
ORDER BY finalize_claimed_at, run_id LIMIT %(limit)s

-- name: page_unsent
-- Inserted and never sent, or parked, oldest first (D5). Not while disabled (TIX-1), so parked runs cost no message and
-- delay no other run. An array and no join, which could cost the index's order.
SELECT {run.*}, created_at AS page_time FROM runs
WHERE status = 'QUEUED' AND finalize_stage IS NULL AND enqueued_at IS NULL
  AND NOT ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)
  AND created_at <= coalesce(%(now)s, now()) - make_interval(secs => %(age_seconds)s)
  AND (created_at, run_id) > (%(after_time)s, %(after_id)s)
ORDER BY created_at, run_id LIMIT %(limit)s

-- name: page_past_retention
-- Ended and past their retention, oldest first (RUN-12).
SELECT {run.*}, retention_until AS page_time FROM runs
WHERE status IN ('COMPLETED', 'FAILED') AND retention_until <= coalesce(%(now)s, now())
  AND (retention_until, run_id) > (%(after_time)s, %(after_id)s)
ORDER BY retention_until, run_id LIMIT %(limit)s

-- name: expire
-- An ended run becomes a tombstone (D7): the result is gone, the money state stays, the idempotency key is free.
UPDATE runs SET
  status = 'EXPIRED', result_bucket = NULL, result_key = NULL, result_sha256 = NULL,
  result_parts = '[]',
  idempotency_released_at = coalesce(idempotency_released_at, %(now)s, now()),
  version = version + 1, updated_at = coalesce(%(now)s, now())
WHERE run_id = %(run_id)s AND version = %(version)s AND status IN ('COMPLETED', 'FAILED')
  AND retention_until <= coalesce(%(now)s, now())
RETURNING {run.*}

-- name: purge_inputs
-- Delete a batch of the inputs of runs that ended an hour ago (D8).
DELETE FROM run_inputs WHERE run_id IN (
  SELECT run_id FROM run_inputs WHERE purge_after <= coalesce(%(now)s, now()) ORDER BY purge_after LIMIT %(limit)s)

-- name: unresolved
-- What the jobs left over: runs whose money waits for an operator (D3), claims that were never finished (RUN-22).
SELECT
  (SELECT count(*) FROM runs WHERE money_state = 'DISPUTED'),
  (SELECT count(*) FROM runs WHERE finalize_stage = 'CLAIMED' AND money_state = 'RESERVED'
    AND finalize_claimed_at < coalesce(%(now)s, now()) - make_interval(secs => %(age_seconds)s))

-- name: runs_among
-- The runs of the tenant among these ids; the other reservations are orphans, and one of an ended run is a leftover (D2).
SELECT {run.*} FROM runs WHERE tenant_id = %(tenant_id)s AND run_id = ANY(%(run_ids)s)

-- name: decide_execution
-- The newest decision of a scope applies (TIX-1): the later one; of two at the same time, the one with the greater id.
-- Returns no row for an older decision, and for the one that applies already.
INSERT INTO execution_switches (scope, enabled, decision_id, actor, reason, decided_at)
VALUES (%(scope)s, %(enabled)s, %(decision_id)s, %(actor)s, %(reason)s, %(decided_at)s)
ON CONFLICT (scope) DO UPDATE SET
  enabled = excluded.enabled, decision_id = excluded.decision_id, actor = excluded.actor,
  reason = excluded.reason, decided_at = excluded.decided_at
WHERE execution_switches.decision_id <> excluded.decision_id
  AND (execution_switches.decided_at, execution_switches.decision_id) < (excluded.decided_at, excluded.decision_id)
RETURNING scope, enabled, decision_id, actor, reason, decided_at

-- name: execution_switches
-- The decision that applies to each scope that was ever decided on, '*' first; six rows at most.
SELECT scope, enabled, decision_id, actor, reason, decided_at FROM execution_switches
ORDER BY scope COLLATE "C"
