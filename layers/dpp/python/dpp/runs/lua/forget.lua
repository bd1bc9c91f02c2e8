-- Frees an idempotency key: deletes its mapping and its lock, if they belong to this run.
-- KEYS: mapping, lock
-- ARGV: run_id, payload_hash
-- OK
if redis.call('HGET', KEYS[1], 'run_id') == ARGV[1] then redis.call('DEL', KEYS[1]) end
if redis.call('GET', KEYS[2]) == ARGV[1] .. ' ' .. ARGV[2] then redis.call('DEL', KEYS[2]) end
return {'OK'}
