-- name: waiting
-- The 10,000 that were begun first of those that wait: how many, how many are parked (their execution is disabled, so
-- that no message of theirs is in the queue), and for how long the oldest of the others has waited.
SELECT count(*), count(*) FILTER (WHERE is_parked),
       coalesce(extract(epoch FROM coalesce(%(now)s, now())
         - min(coalesce(enqueued_at, created_at)) FILTER (WHERE NOT is_parked)), 0)::float8
FROM (
  SELECT created_at, enqueued_at,
    enqueued_at IS NULL AND ARRAY['*', pack_type] && ARRAY(SELECT scope FROM execution_switches WHERE NOT enabled)
      AS is_parked
  FROM runs WHERE status = 'QUEUED' AND finalize_stage IS NULL
  ORDER BY created_at, run_id LIMIT %(at_most)s) AS found

-- name: under_way
-- How many a worker has, and how many are being ended; each counted up to a bound.
SELECT
  (SELECT count(*) FROM (
    SELECT FROM runs WHERE status = 'PROCESSING' AND finalize_stage IS NULL
    ORDER BY lease_expires_at, run_id LIMIT %(at_most)s) AS leased),
  (SELECT count(*) FROM (
    SELECT FROM runs WHERE finalize_stage = 'CLAIMED' AND money_state = 'RESERVED'
    ORDER BY finalize_claimed_at, run_id LIMIT %(at_most)s) AS claimed)

-- name: ended_lately
-- Of the runs begun last, how many ended within so many seconds, and how. A run ends within two hours of its beginning,
-- so that those begun last hold those that ended last, and no index by the end is kept for this alone.
SELECT status, count(*) FROM (
  SELECT status, updated_at FROM runs
  WHERE status IN ('COMPLETED', 'FAILED')
    AND retention_until > coalesce(%(now)s, now()) + interval '30 days' - interval '2 hours'
  ORDER BY retention_until DESC, run_id DESC LIMIT %(at_most)s) AS last
WHERE updated_at > coalesce(%(now)s, now()) - make_interval(secs => %(seconds)s)
GROUP BY status ORDER BY status

-- name: tenants_to_look_at
-- So many tenants: those whose runs are open or ended lately, then any others; with what their bucket of requests holds,
-- and whether they were ever given money.
WITH busy AS (
  SELECT DISTINCT tenant_id FROM (
    (SELECT tenant_id FROM runs WHERE status = 'QUEUED' AND finalize_stage IS NULL
      ORDER BY created_at DESC, run_id DESC LIMIT %(runs)s)
    UNION ALL
    (SELECT tenant_id FROM runs WHERE status = 'PROCESSING' AND finalize_stage IS NULL
      ORDER BY lease_expires_at DESC, run_id DESC LIMIT %(runs)s)
    UNION ALL
    (SELECT tenant_id FROM runs
      WHERE status IN ('COMPLETED', 'FAILED')
        AND retention_until > coalesce(%(now)s, now()) + interval '30 days' - interval '2 hours'
      ORDER BY retention_until DESC, run_id DESC LIMIT %(runs)s)) AS lately
), chosen AS (
  SELECT tenant_id, bool_or(is_busy) AS is_busy FROM (
    SELECT tenant_id, true AS is_busy FROM busy
    UNION ALL (SELECT tenant_id, false FROM tenants ORDER BY tenant_id LIMIT %(at_most)s)) AS both_of_them
  GROUP BY tenant_id ORDER BY bool_or(is_busy) DESC, tenant_id LIMIT %(at_most)s
)
SELECT t.tenant_id, t.rate_limit_per_minute, c.is_busy,
  EXISTS (SELECT FROM budget_credits b WHERE b.tenant_id = t.tenant_id)
FROM chosen c JOIN tenants t USING (tenant_id)
ORDER BY c.is_busy DESC, t.tenant_id

-- name: reserved
-- What open runs of these tenants have reserved, by Postgres.
SELECT tenant_id, sum(reservation_max_cost_usd_micros)::bigint FROM runs
WHERE tenant_id = ANY (%(tenant_ids)s) AND money_state IN ('RESERVED', 'DISPUTED')
GROUP BY tenant_id
