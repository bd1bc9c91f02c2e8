-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: run_id, receipt_ttl_ms
-- OK <refund> <balance> <charge> <kind> <NEW|REPEATED> | ERR_NO_RESERVE
local closed = close(KEYS, ARGV[1], '0', 'REFUNDED', ARGV[2])
if closed[1] ~= 'OK' then return closed end
local _, charge, refund, balance, kind, how = unpack(closed)
return {'OK', refund, balance, charge, kind, how}
