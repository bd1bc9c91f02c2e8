-- The metered run (RUN-29; 001 §5). The schema enforces the state machine of dpp/runs/machine.py: a wrong
-- write fails here. Every CHECK over nullable columns ends in IS TRUE, since a NULL check counts as passed.

-- The roles that write for others. They belong to the whole cluster, so they may exist already. The chamberlain (cleaner)
-- may delete from the tables that are granted to it and from no other, also where a table is append-only (LIFE-8); the
-- three writers of a workspace are in 0005.
DO $$
DECLARE
  role_name text;
BEGIN
  FOREACH role_name IN ARRAY ARRAY[
    'dpp_chamberlain', 'dpp_workspace_api', 'dpp_workspace_monitor', 'dpp_workspace_reconciler'] LOOP
    BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role_name) THEN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOINHERIT', role_name);
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL;  -- another database's migration made it meanwhile
    END;
    -- Who makes a role may administer it, and has to give itself leave to act as it.
    IF NOT pg_has_role(current_user, role_name, 'SET') THEN
      EXECUTE format('GRANT %I TO CURRENT_USER WITH INHERIT FALSE, SET TRUE', role_name);
    END IF;
  END LOOP;
END $$;

CREATE TABLE tenants (
  tenant_id             text PRIMARY KEY CHECK (tenant_id ~ '^[A-Za-z0-9_-]{1,64}$'),
  display_name          text NOT NULL CHECK (length(display_name) BETWEEN 1 AND 200),
  status                text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'SUSPENDED')),
  rate_limit_per_minute integer NOT NULL DEFAULT 60 CHECK (rate_limit_per_minute BETWEEN 1 AND 1000000),
  created_at            timestamptz NOT NULL DEFAULT now()
);

-- Only the SHA-256 of a key's secret is kept; the secret itself is 256 random bits, so no slow hash is needed.
CREATE TABLE api_keys (
  key_id       uuid PRIMARY KEY,
  tenant_id    text NOT NULL REFERENCES tenants (tenant_id),
  key_hash     text NOT NULL UNIQUE CHECK (key_hash ~ '^[0-9a-f]{64}$'),
  label        text CHECK (length(label) <= 200),
  status       text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'REVOKED')),
  created_at   timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz
);
CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id);

-- For the tables that nobody changes.
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_user = 'dpp_chamberlain' THEN
    RETURN NULL;  -- by his grants
  END IF;
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

-- For a trigger whose WHEN says what stays; with none, nothing goes that way.
CREATE FUNCTION refuse_deletion() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% keeps what is still needed', TG_TABLE_NAME
    USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_NAME;
END $$;

-- Arguments: the table of what the rows belong to, and the column that names it in both. It runs when the whole
-- statement is through, so that one statement can delete both.
CREATE FUNCTION refuse_deletion_alone() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  is_left boolean;
BEGIN
  EXECUTE format('SELECT EXISTS (SELECT FROM gone JOIN %1$I AS owner ON owner.%2$I = gone.%2$I)', TG_ARGV[0], TG_ARGV[1])
    INTO is_left;
  IF is_left THEN
    RAISE EXCEPTION '% goes with its % alone', TG_TABLE_NAME, TG_ARGV[0]
      USING ERRCODE = 'restrict_violation', CONSTRAINT = TG_NAME;
  END IF;
  RETURN NULL;
END $$;

-- A state machine as a trigger. Arguments: the column of the state; what a new row has; the ways, {"from": ["to", …]}; the
-- columns that never change.
CREATE FUNCTION follow_machine() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  state text := TG_ARGV[0];
  row_after jsonb := to_jsonb(NEW);
  row_before jsonb;
BEGIN
  IF TG_OP = 'INSERT' THEN
    -- A NULL is for the column's own NOT NULL to refuse.
    IF EXISTS (SELECT FROM jsonb_each(TG_ARGV[1]::jsonb) AS wanted
               WHERE row_after -> wanted.key NOT IN (wanted.value, 'null')) THEN
      RAISE EXCEPTION 'a new row of % has %', TG_TABLE_NAME, TG_ARGV[1]
        USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_transition';
    END IF;
    RETURN NEW;
  END IF;
  row_before := to_jsonb(OLD);
  IF EXISTS (SELECT FROM unnest(string_to_array(TG_ARGV[3], ' ')) AS fixed
             WHERE row_before -> fixed IS DISTINCT FROM row_after -> fixed) THEN
    RAISE EXCEPTION 'these columns of % never change: %', TG_TABLE_NAME, TG_ARGV[3]
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_is_final';
  END IF;
  IF (TG_ARGV[2]::jsonb -> (row_before ->> state) ? (row_after ->> state)) IS NOT TRUE THEN
    RAISE EXCEPTION 'no way from % to %', row_before ->> state, row_after ->> state
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_TABLE_NAME || '_transition';
  END IF;
  RETURN NEW;
END $$;

-- What a tenant was given to spend; append-only, the other half of the ledger identity (D2).
CREATE TABLE budget_credits (
  credit_id         uuid PRIMARY KEY,
  tenant_id         text NOT NULL REFERENCES tenants (tenant_id),
  amount_usd_micros bigint NOT NULL CHECK (amount_usd_micros BETWEEN 1 AND 9007199254740991),
  reason            text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  created_at        timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX budget_credits_by_tenant ON budget_credits (tenant_id) INCLUDE (amount_usd_micros);

CREATE TRIGGER budget_credits_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON budget_credits
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE TABLE runs (
  run_id                          uuid PRIMARY KEY,
  tenant_id                       text NOT NULL REFERENCES tenants (tenant_id),
  pack_type                       text NOT NULL
    CHECK (pack_type IN ('ocr', 'url', 'decision', 'compliance', 'eval')),
  profile_version                 text NOT NULL CHECK (length(profile_version) BETWEEN 1 AND 64),
  status                          text NOT NULL
    CHECK (status IN ('QUEUED', 'PROCESSING', 'COMPLETED', 'FAILED', 'EXPIRED')),
  money_state                     text NOT NULL
    CHECK (money_state IN ('NONE', 'RESERVED', 'SETTLED', 'REFUNDED', 'DISPUTED')),
  version                         bigint NOT NULL DEFAULT 0 CHECK (version >= 0),

  idempotency_key                 text NOT NULL CHECK (length(idempotency_key) BETWEEN 8 AND 64),
  -- Set when the key is free again: the run never reached the queue (RUN-8) or is past its retention (D7).
  idempotency_released_at         timestamptz,
  payload_hash                    text NOT NULL CHECK (payload_hash ~ '^[0-9a-f]{64}$'),

  reservation_max_cost_usd_micros bigint NOT NULL
    CHECK (reservation_max_cost_usd_micros BETWEEN 1 AND 9007199254740991),
  minimum_fee_usd_micros          bigint NOT NULL CHECK (minimum_fee_usd_micros BETWEEN 5000 AND 100000),
  actual_cost_usd_micros          bigint,
  tokens_consumed                 bigint NOT NULL DEFAULT 0 CHECK (tokens_consumed >= 0),
  timebox_sec                     smallint NOT NULL CHECK (timebox_sec BETWEEN 1 AND 90),
  min_reliability_score           numeric NOT NULL CHECK (min_reliability_score BETWEEN 0 AND 1),
  inline_result                   boolean NOT NULL DEFAULT false,

  result_bucket                   text,
  result_key                      text,
  result_sha256                   text CHECK (result_sha256 ~ '^[0-9a-f]{64}$'),
  result_parts                    jsonb NOT NULL DEFAULT '[]',
  retention_until                 timestamptz NOT NULL,

  lease_token                     text,
  lease_expires_at                timestamptz,

  -- The recorded intent of the finalize (D3): what a claim is about to do, written by the claim itself.
  finalize_stage                  text CHECK (finalize_stage IN ('CLAIMED', 'COMMITTED')),
  finalize_token                  text,
  finalize_claimed_at             timestamptz,
  finalize_outcome                text CHECK (finalize_outcome IN ('COMPLETED', 'FAILED')),
  finalize_money_state            text CHECK (finalize_money_state IN ('SETTLED', 'REFUNDED')),
  finalize_charge_usd_micros      bigint,

  last_error_reason_code          text CHECK (length(last_error_reason_code) <= 64),
  last_error_detail               text CHECK (length(last_error_detail) <= 1000),
  trace_id                        text NOT NULL CHECK (length(trace_id) BETWEEN 1 AND 64),

  enqueued_at                     timestamptz,
  created_at                      timestamptz NOT NULL DEFAULT now(),
  updated_at                      timestamptz NOT NULL DEFAULT now(),

  CONSTRAINT runs_result_is_whole CHECK (
    num_nonnulls(result_bucket, result_key, result_sha256) IN (0, 3)
    AND (result_key IS NOT NULL OR result_parts = '[]')),

  CONSTRAINT runs_lease_is_whole CHECK (num_nonnulls(lease_token, lease_expires_at) IN (0, 2)),

  CONSTRAINT runs_intent_is_whole CHECK (
    num_nonnulls(finalize_stage, finalize_token, finalize_claimed_at, finalize_outcome,
                 finalize_money_state, finalize_charge_usd_micros) IN (0, 6)),

  CONSTRAINT runs_intent_is_payable CHECK (finalize_stage IS NULL OR (
    finalize_charge_usd_micros BETWEEN 0 AND reservation_max_cost_usd_micros
    AND (finalize_outcome <> 'COMPLETED' OR finalize_money_state = 'SETTLED')
    AND (finalize_money_state <> 'REFUNDED' OR finalize_charge_usd_micros = 0)) IS TRUE),

  CONSTRAINT runs_status_and_money_agree CHECK ((CASE status
    WHEN 'QUEUED' THEN money_state IN ('RESERVED', 'DISPUTED') AND lease_token IS NULL
    WHEN 'PROCESSING' THEN money_state IN ('RESERVED', 'DISPUTED') AND lease_token IS NOT NULL
    WHEN 'COMPLETED' THEN money_state = 'SETTLED' AND result_key IS NOT NULL AND last_error_reason_code IS NULL
    WHEN 'FAILED' THEN money_state IN ('SETTLED', 'REFUNDED') AND last_error_reason_code IS NOT NULL
    WHEN 'EXPIRED' THEN money_state IN ('SETTLED', 'REFUNDED') AND result_key IS NULL
      AND idempotency_released_at IS NOT NULL
  END) IS TRUE),

  -- RUN-24: a terminal run is committed exactly as it was claimed, and only a terminal run is committed.
  CONSTRAINT runs_commit_follows_intent CHECK ((CASE
    WHEN status IN ('COMPLETED', 'FAILED', 'EXPIRED') THEN
      finalize_stage = 'COMMITTED'
      AND (status = 'EXPIRED' OR status = finalize_outcome)
      AND money_state = finalize_money_state
      AND actual_cost_usd_micros = finalize_charge_usd_micros
    ELSE finalize_stage IS DISTINCT FROM 'COMMITTED' AND actual_cost_usd_micros IS NULL
  END) IS TRUE),

  -- What never ran costs nothing, and what ran is never free: a claim says so before any money moves.
  CONSTRAINT runs_intent_fits_status CHECK (finalize_stage IS NULL OR (CASE status
    WHEN 'QUEUED' THEN finalize_outcome = 'FAILED' AND finalize_money_state = 'REFUNDED'
    WHEN 'PROCESSING' THEN finalize_money_state = 'SETTLED'
    ELSE true
  END) IS TRUE),

  CONSTRAINT runs_dispute_has_an_intent CHECK (
    (money_state <> 'DISPUTED' OR finalize_stage = 'CLAIMED') IS TRUE),

  -- D4: the key of a run that lives, was paid for or may still be read is never free.
  CONSTRAINT runs_release_is_final CHECK (idempotency_released_at IS NULL OR (
    status = 'EXPIRED' OR (status = 'FAILED' AND money_state = 'REFUNDED')) IS TRUE)
);

-- D4: the guard of idempotency; the Redis mapping is only its fast path.
CREATE UNIQUE INDEX runs_idempotency ON runs (tenant_id, idempotency_key) WHERE idempotency_released_at IS NULL;
CREATE INDEX runs_by_tenant ON runs (tenant_id, created_at DESC);
-- Reaper (RUN-20) and the second half of reconcile (RUN-22).
CREATE INDEX runs_expired_lease ON runs (lease_expires_at, run_id)
  WHERE status = 'PROCESSING' AND finalize_stage IS NULL;
-- Sweeper (RUN-21), and reconcile for what was never sent (D5). `enqueued_at` stands in no index, so that setting it
-- right after every insert rewrites none (a HOT update).
CREATE INDEX runs_waiting ON runs (created_at, run_id) WHERE status = 'QUEUED' AND finalize_stage IS NULL;
-- Reconcile: claimed and never committed (RUN-22).
CREATE INDEX runs_stuck_claim ON runs (finalize_claimed_at, run_id)
  WHERE finalize_stage = 'CLAIMED' AND money_state = 'RESERVED';
-- What an operator must decide (D3).
CREATE INDEX runs_disputed ON runs (tenant_id, run_id) WHERE money_state = 'DISPUTED';
-- Retention (RUN-12).
CREATE INDEX runs_retention ON runs (retention_until, run_id) WHERE status IN ('COMPLETED', 'FAILED');
-- The open half of the ledger identity (D2).
CREATE INDEX runs_open_reservations ON runs (tenant_id) INCLUDE (reservation_max_cost_usd_micros)
  WHERE money_state IN ('RESERVED', 'DISPUTED');

-- Runs: tombstones alone (D7). `updated_at` is when one became EXPIRED, since nothing changes it afterwards.
CREATE INDEX runs_tombstones ON runs (updated_at, run_id) WHERE status = 'EXPIRED';
CREATE TRIGGER runs_only_tombstones_go
  BEFORE DELETE ON runs FOR EACH ROW WHEN (OLD.status <> 'EXPIRED') EXECUTE FUNCTION refuse_deletion();
CREATE TRIGGER runs_are_not_truncated
  BEFORE TRUNCATE ON runs FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion();
GRANT SELECT, DELETE ON runs TO dpp_chamberlain;

-- D8: inputs are private, live apart from the hot row, and are deleted a while after their run has ended.
CREATE TABLE run_inputs (
  run_id      uuid PRIMARY KEY REFERENCES runs (run_id) ON DELETE CASCADE,
  inputs      jsonb NOT NULL CHECK (jsonb_typeof(inputs) = 'object'),
  purge_after timestamptz -- set when the run ends
);
CREATE INDEX run_inputs_due ON run_inputs (purge_after) WHERE purge_after IS NOT NULL;
