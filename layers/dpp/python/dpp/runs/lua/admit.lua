-- All of a submit's work in Redis before its insert, in one call (D4): rate limit (RUN-14), idempotency look-up and
-- lock (RUN-4), reservation (RUN-6). Repeatable: a call whose reply was lost may be sent again.
-- KEYS: balance, reservation, receipt, ages, amounts, bucket, mapping, lock
-- ARGV: run_id, tenant_id, reserved_usd_micros, created_at_ms, reservation_ttl_ms, payload_hash, lock_ttl_ms, rate_limit
-- Returns the bucket's remaining tokens and reset_seconds, then one of:
-- RATE_LIMITED <balance> | MAPPED <run_id> <payload_hash> <balance> | LOCKED <payload_hash> <balance>
-- OK <balance> | ERR_INSUFFICIENT <balance> | ERR_BAD_AMOUNT <balance>
local keys = {KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]}
local run_id, payload_hash = ARGV[1], ARGV[6]

local allowed, remaining, reset_seconds = take_token(KEYS[6], ARGV[8])
local function reply(code, ...) return {tostring(remaining), tostring(reset_seconds), code, ...} end
local function balance() return redis.call('GET', keys[1]) or '0' end

if allowed == 0 then return reply('RATE_LIMITED', balance()) end

local mapping = redis.call('HMGET', KEYS[7], 'run_id', 'payload_hash')
if mapping[1] then return reply('MAPPED', mapping[1], mapping[2], balance()) end

local lock_value = run_id .. ' ' .. payload_hash
local holder = redis.call('GET', KEYS[8])
if holder and holder ~= lock_value then
  return reply('LOCKED', string.match(holder, ' (%x+)$') or '', balance())
end
redis.call('SET', KEYS[8], lock_value, 'PX', ARGV[7])

local reserved = reserve(keys, run_id, ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if reserved[1] == 'ERR_ALREADY_RESERVED' then return reply('OK', balance()) end
if reserved[1] ~= 'OK' then
  redis.call('DEL', KEYS[8])
  return reply(reserved[1], reserved[2] or balance())
end
return reply('OK', reserved[2])
