-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: run_id, tenant_id, reserved_usd_micros, created_at_ms, reservation_ttl_ms
-- OK <balance> | ERR_INSUFFICIENT <balance> | ERR_ALREADY_RESERVED | ERR_BAD_AMOUNT
return reserve(KEYS, ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5])
