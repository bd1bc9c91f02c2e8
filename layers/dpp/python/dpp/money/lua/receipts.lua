-- KEYS: the receipts of one tenant's runs
-- OK, then for each key in order: <kind> <charge_usd_micros>, both empty where there is no receipt
local reply = {'OK'}
for _, key in ipairs(KEYS) do
  local receipt = redis.call('HMGET', key, 'kind', 'charge_usd_micros')
  reply[#reply + 1] = receipt[1] or ''
  reply[#reply + 1] = receipt[2] or ''
end
return reply
