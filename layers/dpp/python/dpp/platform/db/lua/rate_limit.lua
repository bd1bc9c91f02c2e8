-- A token bucket in integers (RUN-14): a token is 60000 parts, and `limit` parts are refilled per millisecond, so
-- `limit` tokens are refilled per minute and nothing is lost to rounding. The bucket holds `limit` tokens.
-- Returns allowed (1 or 0), whole tokens left, seconds until the bucket is full.

local function take_token(bucket_key, limit_text)
  local parts_a_token = 60000
  local limit = tonumber(limit_text)
  local capacity = limit * parts_a_token
  local time = redis.call('TIME')
  local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
  local bucket = redis.call('HMGET', bucket_key, 'parts', 'at_ms')
  local parts = capacity
  if bucket[1] then
    local elapsed = math.max(0, now - tonumber(bucket[2]))
    parts = math.min(capacity, tonumber(bucket[1]) + elapsed * limit)
  end
  local allowed = 0
  if parts >= parts_a_token then
    allowed = 1
    parts = parts - parts_a_token
  end
  redis.call('HSET', bucket_key, 'parts', string.format('%.0f', parts), 'at_ms', string.format('%.0f', now))
  redis.call('PEXPIRE', bucket_key, 120000)
  local full_in_seconds = math.ceil((capacity - parts) / limit / 1000)
  return allowed, math.floor(parts / parts_a_token), full_in_seconds
end
