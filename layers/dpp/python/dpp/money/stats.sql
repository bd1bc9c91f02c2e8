-- name: drift
-- What balances were off, in micros: those that were written anew for it within so many seconds, of the last 1,000, and
-- those that wait for an operator; how many balances were written anew, lost ones with them, and how many wait.
WITH lately AS (
  SELECT reason, abs(coalesce(before_usd_micros, 0) - balance_usd_micros) AS off FROM (
    SELECT reason, before_usd_micros, balance_usd_micros, created_at FROM ledger_rebuilds
    ORDER BY rebuild_id DESC LIMIT 1000) AS last
  WHERE reason IN ('DRIFT', 'LOST') AND created_at > coalesce(%(now)s, now()) - make_interval(secs => %(seconds)s)
)
SELECT
  (coalesce((SELECT sum(off) FROM lately WHERE reason = 'DRIFT'), 0)
    + coalesce((SELECT sum(abs(drift_usd_micros)) FROM ledger_audits WHERE verdict = 'DISPUTED'), 0))::bigint,
  (SELECT count(*) FROM lately),
  (SELECT count(*) FROM ledger_audits WHERE verdict = 'DISPUTED')
