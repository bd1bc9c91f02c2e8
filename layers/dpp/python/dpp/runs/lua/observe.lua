-- All of a read's work in Redis, in one call: rate limit (RUN-14) and the balance for the cost headers.
-- KEYS: bucket, balance
-- ARGV: rate_limit
-- <remaining> <reset_seconds> <allowed> <balance>
local allowed, remaining, reset_seconds = take_token(KEYS[1], ARGV[1])
return {tostring(remaining), tostring(reset_seconds), tostring(allowed), redis.call('GET', KEYS[2]) or '0'}
