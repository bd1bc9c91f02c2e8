-- What each tenant was charged, added up as runs end (D2): its books cost the same however many runs it has had.
--
-- `ledger_carried` and the index `runs_charges` stay for the release before, which adds up rows; the sum here is that of
-- the settled rows and of what was carried, always.

-- Sixteen rows a tenant, a run's by its id, so that of runs that end at once few wait for each other's commit. Nothing of
-- them is indexed but their key: an addition writes no index.
CREATE TABLE ledger_charges (
  tenant_id          text NOT NULL REFERENCES tenants (tenant_id),
  slot               smallint NOT NULL CHECK (slot BETWEEN 0 AND 15),
  charges_usd_micros bigint NOT NULL CHECK (charges_usd_micros BETWEEN -9007199254740991 AND 9007199254740991),
  PRIMARY KEY (tenant_id, slot)
) WITH (fillfactor = 40);
COMMENT ON COLUMN ledger_charges.charges_usd_micros IS
  'below zero where hands took a charge back that another row holds; the sum of a tenant is what counts';

CREATE FUNCTION add_charge(charged text, run uuid, usd_micros bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ledger_charges (tenant_id, slot, charges_usd_micros)
  VALUES (charged, get_byte(uuid_send(run), 15) & 15, usd_micros)
  ON CONFLICT (tenant_id, slot) DO UPDATE
    SET charges_usd_micros = ledger_charges.charges_usd_micros + excluded.charges_usd_micros;
END $$;

-- In the statement that changes the row, whoever's it is, so that the sum is never another than that of the rows.
CREATE FUNCTION keep_ledger_charges() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'UPDATE' AND OLD.money_state = 'SETTLED' THEN
    PERFORM add_charge(OLD.tenant_id, OLD.run_id, -OLD.actual_cost_usd_micros);
  END IF;
  IF NEW.money_state = 'SETTLED' THEN
    PERFORM add_charge(NEW.tenant_id, NEW.run_id, NEW.actual_cost_usd_micros);
  END IF;
  RETURN NULL;
END $$;

-- Everything anew, from the rows and what was carried; writes to `runs` wait meanwhile. For this migration, and for whoever
-- wrote rows past the triggers.
CREATE FUNCTION count_charges_anew() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE;
  UPDATE ledger_charges SET charges_usd_micros = 0;
  INSERT INTO ledger_charges (tenant_id, slot, charges_usd_micros)
  SELECT tenant_id, 0, sum(charge) FROM (
    SELECT tenant_id, actual_cost_usd_micros AS charge FROM runs WHERE money_state = 'SETTLED'
    UNION ALL SELECT tenant_id, charges_usd_micros FROM ledger_carried) AS charged
  GROUP BY tenant_id
  ON CONFLICT (tenant_id, slot) DO UPDATE SET charges_usd_micros = excluded.charges_usd_micros;
END $$;

SELECT count_charges_anew();

CREATE TRIGGER runs_that_come_settled_are_charged
  AFTER INSERT ON runs FOR EACH ROW WHEN (NEW.money_state = 'SETTLED') EXECUTE FUNCTION keep_ledger_charges();
CREATE TRIGGER runs_are_charged
  AFTER UPDATE ON runs FOR EACH ROW WHEN (
    (OLD.money_state = 'SETTLED') <> (NEW.money_state = 'SETTLED')
    OR NEW.money_state = 'SETTLED' AND (
      OLD.actual_cost_usd_micros <> NEW.actual_cost_usd_micros OR OLD.tenant_id <> NEW.tenant_id))
  EXECUTE FUNCTION keep_ledger_charges();
CREATE TRIGGER ledger_charges_stay
  BEFORE DELETE OR TRUNCATE ON ledger_charges FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion();
