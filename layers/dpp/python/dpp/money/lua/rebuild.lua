-- Writes a tenant's balance and reservation index anew from what Postgres says, all or nothing (D2).
-- KEYS: balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of ARGV
-- ARGV: JSON of what Postgres told (see books.lua; `credits` holds all of them),
--       the balance that was read before all of it, empty for none
-- OK <balance> <in_flight_usd_micros> <missing reservations, entered now> | ERR_MOVED: the balance is another by now, and so may the facts be
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end
local told = cjson.decode(ARGV[1])
local books = reckon(KEYS, told)
for _, run_id in ipairs(books.to_forget) do
  redis.call('HDEL', KEYS[3], run_id)
  redis.call('ZREM', KEYS[2], run_id)
end
for run_id, amount in pairs(books.to_enter) do
  redis.call('HSET', KEYS[3], run_id, amount)
  redis.call('ZADD', KEYS[2], 'NX', now_ms(), run_id)
end
for _, credit in ipairs(told.credits) do redis.call('SADD', KEYS[4], credit[1]) end
local balance = as_text(books.balance)
redis.call('DEL', KEYS[1])
redis.call('INCRBY', KEYS[1], balance)
return {'OK', balance, as_text(books.in_flight), as_text(books.missing)}
