-- KEYS: lease
-- ARGV: lease_token
-- OK | ERR_NOT_HELD
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {'ERR_NOT_HELD'} end
redis.call('DEL', KEYS[1])
return {'OK'}
