-- Writes a tenant's balance and reservation index anew from what Postgres says, all or nothing (D2).
-- KEYS: balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of ARGV
-- ARGV: credits minus charges in micros, JSON {open: [[run_id, micros], …], closed: [run_id, …], credits: [id, …]},
--       the balance that was read before all of it, empty for none
-- OK <balance> <in_flight_usd_micros> | ERR_MOVED: the balance is another by now, and so may the facts be
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[3] then return {'ERR_MOVED'} end
local told = cjson.decode(ARGV[2])
local entered = redis.call('HGETALL', KEYS[3])
redis.call('ZCARD', KEYS[2])
redis.call('SCARD', KEYS[4])

local known, left = {}, tonumber(ARGV[1])
for _, run_id in ipairs(told.closed) do known[run_id] = true end
local to_enter = {}
for i, run in ipairs(told.open) do
  known[run[1]] = true
  -- A receipt says that the money has moved and only the commit is missing.
  local charged = redis.call('HGET', KEYS[4 + i], 'charge_usd_micros')
  left = left - tonumber(charged or run[2])
  if not charged then to_enter[run[1]] = run[2] end
end
-- What the index holds beyond that was reserved by a submit whose insert is still to come.
local in_flight, to_forget = 0, {}
for i = 1, #entered, 2 do
  local run_id, amount = entered[i], entered[i + 1]
  if not known[run_id] then
    in_flight = in_flight + tonumber(amount)
  elseif not to_enter[run_id] then
    to_forget[#to_forget + 1] = run_id
  end
end

for _, run_id in ipairs(to_forget) do
  redis.call('HDEL', KEYS[3], run_id)
  redis.call('ZREM', KEYS[2], run_id)
end
for run_id, amount in pairs(to_enter) do
  redis.call('HSET', KEYS[3], run_id, amount)
  redis.call('ZADD', KEYS[2], 'NX', now_ms(), run_id)
end
for _, credit_id in ipairs(told.credits) do redis.call('SADD', KEYS[4], credit_id) end
local balance = as_text(left - in_flight)
redis.call('DEL', KEYS[1])
redis.call('INCRBY', KEYS[1], balance)
return {'OK', balance, as_text(in_flight)}
