-- Reopens a run's reservation, so that it can be closed as an operator decided (D3).
-- KEYS: balance, reservation, receipt, ages, amounts
-- ARGV: run_id, reserved_usd_micros, charge_usd_micros and kind as decided
-- OK <balance> <KEPT: the receipt says so already | REOPENED | OPEN: it was never closed> | ERR_NO_RESERVE
local receipt = redis.call('HMGET', KEYS[3], 'charge_usd_micros', 'kind')
local reserved = amount_of(redis.call('HGET', KEYS[5], ARGV[1]) or '')
if receipt[1] then
  if receipt[1] == ARGV[3] and receipt[2] == ARGV[4] then return {'OK', balance_of(KEYS[1]), 'KEPT'} end
  balance_of(KEYS[1])
  -- Take the refund back: the balance is again what it was while the run was open.
  local refunded = as_text(amount_of(ARGV[2]) - amount_of(receipt[1]))
  redis.call('ZADD', KEYS[4], now_ms(), ARGV[1])
  redis.call('DECRBY', KEYS[1], refunded)
  redis.call('HSET', KEYS[5], ARGV[1], ARGV[2])
  redis.call('DEL', KEYS[3])
  return {'OK', redis.call('GET', KEYS[1]), 'REOPENED'}
end
if not reserved then return {'ERR_NO_RESERVE'} end
return {'OK', balance_of(KEYS[1]), 'OPEN'}
