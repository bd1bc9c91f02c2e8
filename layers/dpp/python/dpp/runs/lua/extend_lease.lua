-- KEYS: lease
-- ARGV: lease_token, ttl_ms
-- OK | ERR_NOT_HELD
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'ERR_NOT_HELD'} end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'OK'}
