-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: tenant_id, reserved_usd_micros, created_at_ms, run_id, ttl_ms
-- OK <balance> | ERR_INSUFFICIENT <balance> | ERR_ALREADY_RESERVED | ERR_BAD_AMOUNT
return reserve(KEYS, ARGV[1], ARGV[4], ARGV[2], ARGV[3], ARGV[5])
