-- What the balance must be, and nothing written (D2).
-- KEYS: balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of ARGV
-- ARGV: JSON of what Postgres told (see books.lua; `credits` holds those so young that they may be on their way),
--       the balance that was read before all of it, empty for none
-- OK <balance_due> <in_flight_usd_micros> <missing reservations> | ERR_MOVED: the balance is another by now, and so may the facts be
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end
local told = cjson.decode(ARGV[1])
local books = reckon(KEYS, told)
local on_its_way = 0
for _, credit in ipairs(told.credits) do
  if redis.call('SISMEMBER', KEYS[4], credit[1]) == 0 then on_its_way = on_its_way + tonumber(credit[2]) end
end
return {'OK', as_text(books.balance - on_its_way), as_text(books.in_flight), as_text(books.missing)}
