-- After the insert: maps an idempotency key to its run (RUN-4) and releases the lock.
-- KEYS: mapping, lock
-- ARGV: run_id, payload_hash, created_at_ms, mapping_ttl_ms
-- OK
redis.call('HSET', KEYS[1], 'run_id', ARGV[1], 'payload_hash', ARGV[2], 'created_at_ms', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
if redis.call('GET', KEYS[2]) == ARGV[1] .. ' ' .. ARGV[2] then redis.call('DEL', KEYS[2]) end
return {'OK'}
