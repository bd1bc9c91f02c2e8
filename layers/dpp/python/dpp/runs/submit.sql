-- What a submit writes and reads. The columns of a run serve queries.sql, too.

-- columns: run
run_id, tenant_id, pack_type, profile_version, status, money_state, version, payload_hash, idempotency_released_at,
reservation_max_cost_usd_micros, minimum_fee_usd_micros, actual_cost_usd_micros, tokens_consumed, timebox_sec,
min_reliability_score, inline_result, result_bucket, result_key, result_sha256, result_parts, retention_until, lease_token,
finalize_stage, finalize_token, finalize_outcome, finalize_money_state, finalize_charge_usd_micros,
last_error_reason_code, last_error_detail, trace_id, created_at, updated_at

-- name: insert_run
-- Insert a run and its inputs in one statement; the unique index on (tenant, key) refuses a second run (D4). Returns no
-- row if execution is disabled (TIX-1): nothing starts, and no extra round trip is needed to know so.
WITH run AS (
  INSERT INTO runs (
    run_id, tenant_id, pack_type, profile_version, status, money_state, idempotency_key, payload_hash,
    reservation_max_cost_usd_micros, minimum_fee_usd_micros, timebox_sec, min_reliability_score,
    inline_result, trace_id, created_at, updated_at, retention_until)
  SELECT
    %(run_id)s, %(tenant_id)s, %(pack_type)s, %(profile_version)s, 'QUEUED', 'RESERVED',
    %(idempotency_key)s, %(payload_hash)s, %(reserved_usd_micros)s, %(minimum_fee_usd_micros)s, %(timebox_sec)s,
    %(min_reliability_score)s, %(inline_result)s, %(trace_id)s,
    coalesce(%(now)s, now()), coalesce(%(now)s, now()), coalesce(%(now)s, now()) + interval '30 days'
  WHERE NOT ARRAY['*', %(pack_type)s] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)
  RETURNING {run.*}
), inputs AS (
  INSERT INTO run_inputs (run_id, inputs) SELECT run_id, %(inputs)s FROM run
)
SELECT {run.*} FROM run

-- name: mark_enqueued
-- The message was sent (D5). Only the first time counts, and nothing once a worker has received the message: otherwise a
-- run that the worker has parked meanwhile would count as sent again.
UPDATE runs SET enqueued_at = coalesce(%(now)s, now())
WHERE run_id = %(run_id)s AND version = %(version)s AND enqueued_at IS NULL

-- name: run_of_key
-- The live run of an idempotency key (D4).
SELECT {run.*} FROM runs
WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(idempotency_key)s AND idempotency_released_at IS NULL

-- name: baseline_run
-- An ended eval run with a result, with which another is compared (RUN-28): the tenant's own, within its retention.
SELECT {run.*} FROM runs
WHERE run_id = %(run_id)s AND (tenant_id, pack_type, finalize_stage) IS NOT DISTINCT FROM (%(tenant_id)s, 'eval', 'COMMITTED')
  AND num_nonnulls(result_key) = 1 AND retention_until > coalesce(%(now)s, now())
