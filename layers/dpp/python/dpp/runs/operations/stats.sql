-- name: waiting
-- Of the oldest 10,000 waiting runs: how many, how many are parked (their execution is disabled, so they have no message
-- in the queue), and how long the oldest of the others has waited.
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
-- How many runs a worker holds, and how many are being ended; each counted up to a bound.
SELECT
  (SELECT count(*) FROM (
    SELECT FROM runs WHERE status = 'PROCESSING' AND finalize_stage IS NULL
    ORDER BY lease_expires_at, run_id LIMIT %(at_most)s) AS leased),
  (SELECT count(*) FROM (
    SELECT FROM runs WHERE finalize_stage = 'CLAIMED' AND money_state = 'RESERVED'
    ORDER BY finalize_claimed_at, run_id LIMIT %(at_most)s) AS claimed)

-- name: ended_recently
-- Of the newest runs, how many ended within `seconds`, by status. A run ends within two hours of its submit, so the newest
-- runs include those that ended last, and no index by the time of the end is needed for this alone.
SELECT status, count(*) FROM (
  SELECT status, updated_at FROM runs
  WHERE status IN ('COMPLETED', 'FAILED')
    AND retention_until > coalesce(%(now)s, now()) + interval '30 days' - interval '2 hours'
  ORDER BY retention_until DESC, run_id DESC LIMIT %(at_most)s) AS last
WHERE updated_at > coalesce(%(now)s, now()) - make_interval(secs => %(seconds)s)
GROUP BY status ORDER BY status

-- name: watched_tenants
-- Up to `at_most` tenants, first those whose runs are open or ended recently; with their rate limit, and whether they
-- ever had a credit.
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
      ORDER BY retention_until DESC, run_id DESC LIMIT %(runs)s)) AS recent
), chosen AS (
  SELECT tenant_id, bool_or(is_busy) AS is_busy FROM (
    SELECT tenant_id, true AS is_busy FROM busy
    UNION ALL (SELECT tenant_id, false FROM tenants ORDER BY tenant_id LIMIT %(at_most)s)) AS candidates
  GROUP BY tenant_id ORDER BY bool_or(is_busy) DESC, tenant_id LIMIT %(at_most)s
)
SELECT t.tenant_id, t.rate_limit_per_minute, c.is_busy,
  EXISTS (SELECT FROM budget_credits b WHERE b.tenant_id = t.tenant_id)
FROM chosen c JOIN tenants t USING (tenant_id)
ORDER BY c.is_busy DESC, t.tenant_id

-- name: reserved
-- What the open runs of these tenants have reserved, by Postgres.
SELECT tenant_id, sum(reservation_max_cost_usd_micros)::bigint FROM runs
WHERE tenant_id = ANY (%(tenant_ids)s) AND money_state IN ('RESERVED', 'DISPUTED')
GROUP BY tenant_id
