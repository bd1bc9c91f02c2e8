-- The ledger's moves (001 §6, D2), as functions that the scripts in this folder and admit.lua share.
-- `keys` is always {balance, reservation, receipt, ages, amounts}; dpp/money/keys.py describes each key.
-- Every move is repeatable: a run is reserved once, and a settle or refund leaves a receipt that a repetition returns.
-- Amounts are strings of integers up to 2^53 - 1, the largest integer that a Lua number holds exactly.
-- Redis does not roll back a script that fails. So everything that can fail (a key of another type, a balance that is
-- not an integer) fails before the first write: a move is done completely or not at all.

local MAX_AMOUNT = 9007199254740991

local function amount_of(text)
  if type(text) ~= 'string' or not string.find(text, '^%d+$') then return nil end
  local amount = tonumber(text)
  if amount > MAX_AMOUNT then return nil end
  return amount
end

local function as_text(amount) return string.format('%.0f', amount) end

local function balance_of(key)
  local balance = redis.call('GET', key) or '0'
  if not string.find(balance, '^%-?%d+$') then error('the balance is not an integer') end
  return balance
end

local function now_ms()
  local time = redis.call('TIME')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- {OK, balance} | {ERR_INSUFFICIENT, balance} | {ERR_ALREADY_RESERVED} | {ERR_BAD_AMOUNT}
local function reserve(keys, run_id, tenant_id, amount_text, created_at_ms, ttl_ms)
  local amount = amount_of(amount_text)
  if not amount or amount == 0 then return {'ERR_BAD_AMOUNT'} end
  if redis.call('EXISTS', keys[2], keys[3]) > 0 or redis.call('HEXISTS', keys[5], run_id) == 1 then
    return {'ERR_ALREADY_RESERVED'}
  end
  local balance = balance_of(keys[1])
  if tonumber(balance) < amount then return {'ERR_INSUFFICIENT', balance} end
  local reserved = as_text(amount)
  redis.call('ZADD', keys[4], now_ms(), run_id)
  redis.call('DECRBY', keys[1], reserved)
  redis.call('HSET', keys[5], run_id, reserved)
  redis.call('HSET', keys[2], 'tenant_id', tenant_id, 'reserved_usd_micros', reserved,
             'created_at_ms', created_at_ms)
  redis.call('PEXPIRE', keys[2], ttl_ms)
  return {'OK', redis.call('GET', keys[1])}
end

-- Closes a reservation: charges `charge` and refunds the rest. A repeated call returns the receipt of the first.
-- {OK, charge, refund, balance, kind, NEW | REPEATED} | {ERR_NO_RESERVE} | {ERR_BAD_AMOUNT}
local function close(keys, run_id, charge_text, kind, receipt_ttl_ms)
  local charge = amount_of(charge_text)
  if not charge then return {'ERR_BAD_AMOUNT'} end
  local receipt = redis.call('HMGET', keys[3], 'charge_usd_micros', 'refund_usd_micros', 'kind')
  if receipt[1] then
    return {'OK', receipt[1], receipt[2], balance_of(keys[1]), receipt[3], 'REPEATED'}
  end
  -- The index outlives reserve:{run}, so a reservation older than an hour is closed like any other.
  local reserved = amount_of(redis.call('HGET', keys[5], run_id) or '')
  if not reserved then return {'ERR_NO_RESERVE'} end
  if charge > reserved then charge = reserved end
  local refund = as_text(reserved - charge)
  balance_of(keys[1])
  redis.call('ZREM', keys[4], run_id)
  redis.call('INCRBY', keys[1], refund)
  redis.call('HDEL', keys[5], run_id)
  redis.call('DEL', keys[2])
  redis.call('HSET', keys[3], 'charge_usd_micros', as_text(charge), 'refund_usd_micros', refund, 'kind', kind)
  redis.call('PEXPIRE', keys[3], receipt_ttl_ms)
  return {'OK', as_text(charge), refund, redis.call('GET', keys[1]), kind, 'NEW'}
end
