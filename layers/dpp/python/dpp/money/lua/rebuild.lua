-- Rewrites a tenant's balance and reservation index from Postgres's books, all or nothing (D2).
-- KEYS: balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of ARGV
-- ARGV: Postgres's books as JSON (see books.lua; `credits` lists all of them),
--       the balance that was read before the books, empty for none
-- OK <balance> <in_flight_usd_micros> <missing reservations, added now> | ERR_MOVED: the balance has changed, the books may be stale
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end
local books = cjson.decode(ARGV[1])
local calculated = calculate(KEYS, books)
for _, run_id in ipairs(calculated.to_remove) do
  redis.call('HDEL', KEYS[3], run_id)
  redis.call('ZREM', KEYS[2], run_id)
end
for run_id, amount in pairs(calculated.to_add) do
  redis.call('HSET', KEYS[3], run_id, amount)
  redis.call('ZADD', KEYS[2], 'NX', now_ms(), run_id)
end
for _, credit in ipairs(books.credits) do redis.call('SADD', KEYS[4], credit[1]) end
local balance = as_text(calculated.balance)
redis.call('DEL', KEYS[1])
redis.call('INCRBY', KEYS[1], balance)
return {'OK', balance, as_text(calculated.in_flight), as_text(calculated.missing)}
