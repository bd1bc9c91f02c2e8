-- name: drift
-- Drift in micros, of the balances rebuilt within `seconds` (of the last 1,000 rebuilds) and of the disputed ones; how
-- many balances were rebuilt, lost ones included; how many are disputed.
WITH recent AS (
  SELECT reason, abs(coalesce(before_usd_micros, 0) - balance_usd_micros) AS drift FROM (
    SELECT reason, before_usd_micros, balance_usd_micros, created_at FROM ledger_rebuilds
    ORDER BY rebuild_id DESC LIMIT 1000) AS last
  WHERE reason IN ('DRIFT', 'LOST') AND created_at > coalesce(%(now)s, now()) - make_interval(secs => %(seconds)s)
)
SELECT
  (coalesce((SELECT sum(drift) FROM recent WHERE reason = 'DRIFT'), 0)
    + coalesce((SELECT sum(abs(drift_usd_micros)) FROM ledger_audits WHERE verdict = 'DISPUTED'), 0))::bigint,
  (SELECT count(*) FROM recent),
  (SELECT count(*) FROM ledger_audits WHERE verdict = 'DISPUTED')
