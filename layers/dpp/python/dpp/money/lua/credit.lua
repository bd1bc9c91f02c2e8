-- KEYS: balance, credits_applied
-- ARGV: credit_id, amount_usd_micros, opens (1: create the balance if it does not exist)
-- OK <balance> <NEW|REPEATED> | ERR_TOO_LARGE <balance> | ERR_NO_BALANCE | ERR_BAD_AMOUNT
local amount = amount_of(ARGV[2])
if not amount or amount == 0 then return {'ERR_BAD_AMOUNT'} end
local balance = balance_of(KEYS[1])
if ARGV[3] ~= '1' and redis.call('EXISTS', KEYS[1]) == 0 then return {'ERR_NO_BALANCE'} end
if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return {'OK', balance, 'REPEATED'} end
if tonumber(balance) + amount > MAX_AMOUNT then return {'ERR_TOO_LARGE', balance} end
redis.call('INCRBY', KEYS[1], as_text(amount))
redis.call('SADD', KEYS[2], ARGV[1])
return {'OK', redis.call('GET', KEYS[1]), 'NEW'}
