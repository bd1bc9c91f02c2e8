-- name: transaction_start
-- When the transaction began (D1).
SELECT coalesce(%(now)s, now())

-- name: present_time
-- The time at this moment (D1).
SELECT coalesce(%(now)s, clock_timestamp())
