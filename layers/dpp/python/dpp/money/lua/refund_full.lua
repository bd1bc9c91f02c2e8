-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: run_id, receipt_ttl_ms
-- OK <charge> <refund> <balance> <kind> <NEW|REPEATED> | ERR_NO_RESERVE
return close(KEYS, ARGV[1], '0', 'REFUNDED', ARGV[2])
