-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: run_id, charge_usd_micros, receipt_ttl_ms
-- OK <charge> <refund> <balance> <kind> <NEW|REPEATED> | ERR_NO_RESERVE | ERR_BAD_AMOUNT
return close(KEYS, ARGV[1], ARGV[2], 'SETTLED', ARGV[3])
