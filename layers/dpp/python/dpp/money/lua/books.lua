-- What a tenant's balance must be by what Postgres told and Redis knows better (D2); shared by rebuild and measure.
-- `keys` is {balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of told.open}.
-- `told` is {credits_minus_charges, open: [[run_id, micros], …], closed: [run_id, …], credits: [[id, micros], …]},
-- all amounts as strings.

local function reckon(keys, told)
  local entered = redis.call('HGETALL', keys[3])
  redis.call('ZCARD', keys[2])
  redis.call('SCARD', keys[4])
  local known, to_enter, missing, left = {}, {}, 0, tonumber(told.credits_minus_charges)
  for _, run_id in ipairs(told.closed) do known[run_id] = true end
  for i, run in ipairs(told.open) do
    known[run[1]] = true
    -- A receipt says that the money has moved and only the commit is missing.
    local charged = redis.call('HGET', keys[4 + i], 'charge_usd_micros')
    left = left - tonumber(charged or run[2])
    if not charged then
      to_enter[run[1]] = run[2]
      missing = missing + 1 -- until the index turns out to hold it
    end
  end
  -- What the index holds beyond that was reserved by a submit whose insert is still to come.
  local in_flight, to_forget = 0, {}
  for i = 1, #entered, 2 do
    local run_id, amount = entered[i], entered[i + 1]
    if not known[run_id] then
      in_flight = in_flight + tonumber(amount)
    elseif to_enter[run_id] then
      missing = missing - 1
    else
      to_forget[#to_forget + 1] = run_id
    end
  end
  return {
    balance = left - in_flight, in_flight = in_flight, missing = missing,
    to_enter = to_enter, to_forget = to_forget,
  }
end
