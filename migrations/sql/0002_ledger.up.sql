-- The ledger in Postgres (D2): when each tenant's books were last compared with Redis, every time that a balance was
-- written anew, and what each tenant was charged.

CREATE TABLE ledger_audits (
  tenant_id        text PRIMARY KEY REFERENCES tenants (tenant_id),
  audited_at       timestamptz NOT NULL,
  verdict          text NOT NULL CHECK (verdict IN ('BALANCED', 'REPAIRED', 'DISPUTED', 'BUSY')),
  drift_usd_micros bigint NOT NULL, -- as found, before a repair
  detail           text CHECK (length(detail) <= 1000),
  CONSTRAINT ledger_audits_verdict_and_drift_agree CHECK (
    CASE verdict WHEN 'BALANCED' THEN drift_usd_micros = 0 WHEN 'DISPUTED' THEN detail IS NOT NULL ELSE true END)
);
CREATE INDEX ledger_audits_disputed ON ledger_audits (tenant_id) WHERE verdict = 'DISPUTED';

-- Nothing is written anew behind an auditor's back: found, written, why, when. Append-only.
CREATE TABLE ledger_rebuilds (
  rebuild_id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant_id            text NOT NULL REFERENCES tenants (tenant_id),
  reason               text NOT NULL CHECK (reason IN ('CREDIT', 'LOST', 'DRIFT', 'OPERATOR')),
  before_usd_micros    bigint, -- NULL: Redis held no number
  balance_usd_micros   bigint NOT NULL,
  missing_reservations integer NOT NULL CHECK (missing_reservations >= 0), -- of open runs, entered anew
  created_at           timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ledger_rebuilds_by_tenant ON ledger_rebuilds (tenant_id, rebuild_id);
CREATE TRIGGER ledger_rebuilds_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_rebuilds
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The charges of the runs that are gone (D2): what a tenant was charged is these and those of the rows that are there.
CREATE TABLE ledger_carried (
  tenant_id          text PRIMARY KEY REFERENCES tenants (tenant_id),
  charges_usd_micros bigint NOT NULL CHECK (charges_usd_micros BETWEEN 0 AND 9007199254740991),
  runs               bigint NOT NULL CHECK (runs > 0),
  updated_at         timestamptz NOT NULL
);
CREATE TRIGGER ledger_carried_stays
  BEFORE DELETE OR TRUNCATE ON ledger_carried FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion();
CREATE FUNCTION check_ledger_carried_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.tenant_id <> OLD.tenant_id OR NEW.charges_usd_micros < OLD.charges_usd_micros OR NEW.runs <= OLD.runs THEN
    RAISE EXCEPTION 'what was charged stays charged'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_carried_only_grows';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER ledger_carried_only_grows
  BEFORE UPDATE ON ledger_carried FOR EACH ROW EXECUTE FUNCTION check_ledger_carried_change();
-- Written by the statement that deletes, whoever's it is, and in the order of tenants, so that no two wait for each other.
-- As its owner: who may delete a tombstone has no right to say what it cost.
CREATE FUNCTION carry_charges() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
  INSERT INTO ledger_carried (tenant_id, charges_usd_micros, runs, updated_at)
  SELECT tenant_id, coalesce(sum(actual_cost_usd_micros) FILTER (WHERE money_state = 'SETTLED'), 0), count(*), now()
  FROM gone GROUP BY tenant_id ORDER BY tenant_id
  ON CONFLICT (tenant_id) DO UPDATE SET
    charges_usd_micros = ledger_carried.charges_usd_micros + excluded.charges_usd_micros,
    runs = ledger_carried.runs + excluded.runs, updated_at = excluded.updated_at;
  RETURN NULL;
END $$;
CREATE TRIGGER runs_leave_their_charges
  AFTER DELETE ON runs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION carry_charges();

-- What each tenant was charged, added up as runs end (D2): an audit costs the same however many runs there were. It is the
-- sum of the settled rows and of what was carried, always.
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

-- Everything anew, from the rows and what was carried; writes to `runs` wait meanwhile. For rows that were written without
-- the triggers.
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
