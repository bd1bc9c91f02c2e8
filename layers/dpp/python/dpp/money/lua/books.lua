-- What a tenant's balance must be, by Postgres's books and by what only Redis knows (D2); shared by rebuild and measure.
-- `keys` is {balance, ages, amounts, credits_applied, then the receipt of each open run, in the order of books.open}.
-- `books` is {credits_minus_charges, open: [[run_id, micros], …], closed: [run_id, …], credits: [[id, micros], …]},
-- all amounts as strings.

local function calculate(keys, books)
  local indexed = redis.call('HGETALL', keys[3])
  redis.call('ZCARD', keys[2])
  redis.call('SCARD', keys[4])
  local known, to_add, missing, left = {}, {}, 0, tonumber(books.credits_minus_charges)
  for _, run_id in ipairs(books.closed) do known[run_id] = true end
  for i, run in ipairs(books.open) do
    known[run[1]] = true
    -- With a receipt the money has moved, and only the commit is missing.
    local charged = redis.call('HGET', keys[4 + i], 'charge_usd_micros')
    left = left - tonumber(charged or run[2])
    if not charged then
      to_add[run[1]] = run[2]
      missing = missing + 1 -- until it is found in the index
    end
  end
  -- Runs in the index that Postgres does not know were reserved by a submit that has not inserted its run yet.
  local in_flight, to_remove = 0, {}
  for i = 1, #indexed, 2 do
    local run_id, amount = indexed[i], indexed[i + 1]
    if not known[run_id] then
      in_flight = in_flight + tonumber(amount)
    elseif to_add[run_id] then
      missing = missing - 1
    else
      to_remove[#to_remove + 1] = run_id
    end
  end
  return {
    balance = left - in_flight, in_flight = in_flight, missing = missing,
    to_add = to_add, to_remove = to_remove,
  }
end
