-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: charge_usd_micros, run_id, receipt_ttl_ms
-- OK <charge> <refund> <balance> <kind> <NEW|REPEATED> | ERR_NO_RESERVE | ERR_BAD_AMOUNT
return close(KEYS, ARGV[2], ARGV[1], 'SETTLED', ARGV[3])
