-- Calculates what the balance must be, and writes nothing (D2).
-- KEYS: balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of ARGV
-- ARGV: Postgres's books as JSON (see books.lua; `credits` lists only those young enough to be still under way),
--       the balance that was read before the books, empty for none
-- OK <balance_due> <in_flight_usd_micros> <missing reservations> | ERR_MOVED: the balance has changed, the books may be stale
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[2] then return {'ERR_MOVED'} end
local books = cjson.decode(ARGV[1])
local calculated = calculate(KEYS, books)
local not_applied = 0
for _, credit in ipairs(books.credits) do
  if redis.call('SISMEMBER', KEYS[4], credit[1]) == 0 then not_applied = not_applied + tonumber(credit[2]) end
end
return {'OK', as_text(calculated.balance - not_applied), as_text(calculated.in_flight), as_text(calculated.missing)}
