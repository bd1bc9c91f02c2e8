-- The continuous check of the ledger (D2): when each tenant's books were last held against Redis, and every time
-- that a balance was written anew.

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
