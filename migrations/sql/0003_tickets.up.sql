-- What operators ask for and who they are (000; TIX-1, TIX-6): keys, the emergency stop, tickets with their results and
-- every transition, the reaper's reports, the receipts of the ops cycle, and whether runs may be executed.
-- Every CHECK over nullable columns ends in IS TRUE, since a NULL check counts as passed.

-- A scope apart from tenants' keys: another table, another prefix, no tenant.
CREATE TABLE operator_keys (
  key_id       uuid PRIMARY KEY,
  -- No operator goes by the name of a processor: the record of who did a thing would be worth nothing.
  operator_id  text NOT NULL CHECK (operator_id ~ '^[A-Za-z0-9_.@-]{1,64}$'
    AND operator_id NOT IN ('TICKET_REAPER', 'OPS_CYCLE', 'MIGRATION')),
  key_hash     text NOT NULL UNIQUE CHECK (key_hash ~ '^[0-9a-f]{64}$'),
  label        text CHECK (length(label) <= 200),
  status       text NOT NULL DEFAULT 'ACTIVE' CHECK (status IN ('ACTIVE', 'REVOKED')),
  created_at   timestamptz NOT NULL DEFAULT now(),
  last_used_at timestamptz
);
CREATE INDEX operator_keys_by_operator ON operator_keys (operator_id, created_at DESC);

-- One row. Whoever writes because of the ops cycle reads it FOR SHARE in the same transaction, so that once the stop
-- stands nothing more is written.
CREATE TABLE emergency_stop (
  only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  stopped    boolean NOT NULL,
  actor      text NOT NULL CHECK (length(actor) BETWEEN 1 AND 64),
  reason     text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  changed_at timestamptz NOT NULL
);
INSERT INTO emergency_stop (stopped, actor, reason, changed_at) VALUES (false, 'MIGRATION', 'as it begins', now());

CREATE TABLE emergency_stop_changes (
  change_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  stopped    boolean NOT NULL,
  actor      text NOT NULL,
  reason     text NOT NULL,
  changed_at timestamptz NOT NULL
);
CREATE TRIGGER emergency_stop_changes_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON emergency_stop_changes
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION keep_emergency_stop_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO emergency_stop_changes (stopped, actor, reason, changed_at)
  VALUES (NEW.stopped, NEW.actor, NEW.reason, NEW.changed_at);
  RETURN NULL;
END $$;
CREATE TRIGGER emergency_stop_is_kept
  AFTER UPDATE ON emergency_stop FOR EACH ROW EXECUTE FUNCTION keep_emergency_stop_change();

-- Whether runs may be executed: at all ('*'), and by pack. No row: they may. An older decision never undoes a newer one.
CREATE TABLE execution_switches (
  scope       text PRIMARY KEY CHECK (scope IN ('*', 'ocr', 'url', 'decision', 'compliance', 'eval')),
  enabled     boolean NOT NULL,
  decision_id uuid NOT NULL,
  actor       text NOT NULL CHECK (length(actor) BETWEEN 1 AND 64),
  reason      text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  decided_at  timestamptz NOT NULL
);

CREATE TABLE tickets (
  request_id        uuid PRIMARY KEY,
  -- Filed in this order, and taken in it.
  sequence          bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  request_type      text NOT NULL
    CHECK (request_type IN ('EXECUTION_ENABLE', 'EXECUTION_DISABLE', 'BUDGET_CREDIT', 'DLQ_REDRIVE')),
  params            jsonb NOT NULL CHECK (jsonb_typeof(params) = 'object'),
  reason            text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  requested_by      text NOT NULL CHECK (length(requested_by) BETWEEN 1 AND 64),
  current_status    text NOT NULL CHECK (current_status IN ('OPEN', 'IN_PROGRESS', 'DONE', 'FAILED')),
  attempts          smallint NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  processor_id      text CHECK (length(processor_id) BETWEEN 1 AND 64),
  last_processed_at timestamptz,
  -- Who made the last transition: the filer, the processor, or the reaper.
  moved_by          text NOT NULL CHECK (length(moved_by) BETWEEN 1 AND 64),
  created_at        timestamptz NOT NULL,
  updated_at        timestamptz NOT NULL,

  -- A ticket that somebody has is always one whose age can be told: no IN_PROGRESS escapes the reaper (TIX-1).
  CONSTRAINT tickets_processed_iff_taken CHECK ((CASE current_status
    WHEN 'OPEN' THEN num_nonnulls(processor_id, last_processed_at) = 0 AND attempts = 0
    ELSE num_nonnulls(processor_id, last_processed_at) = 2 AND attempts > 0
  END) IS TRUE),
  -- Nor does one that says it was processed after its own last write.
  CONSTRAINT tickets_heartbeat_is_past CHECK ((last_processed_at IS NULL OR last_processed_at <= updated_at) IS TRUE),
  CONSTRAINT tickets_write_after_filing CHECK (updated_at >= created_at),
  UNIQUE (request_id, current_status)
);
-- What the ops cycle takes next, and pages of one status.
CREATE INDEX tickets_by_status ON tickets (current_status, sequence);
-- What the reaper looks for (TIX-1), what a dead processor left, and what the counters count, each read from the index.
CREATE INDEX tickets_in_progress ON tickets (last_processed_at, request_id) INCLUDE (request_type)
  WHERE current_status = 'IN_PROGRESS';
-- What ended lately, for the counters; by time and id, so that the cleaner reads a page in order.
CREATE INDEX tickets_ended ON tickets (updated_at, request_id) INCLUDE (request_type, current_status)
  WHERE current_status IN ('DONE', 'FAILED');

-- The machine of dpp/tickets/machine.py, and what a ticket asks for, which never changes.
CREATE TRIGGER tickets_follow_the_machine
  BEFORE INSERT OR UPDATE ON tickets FOR EACH ROW EXECUTE FUNCTION follow_machine('current_status',
    '{"current_status": "OPEN"}',
    '{"OPEN": ["IN_PROGRESS"], "IN_PROGRESS": ["IN_PROGRESS", "DONE", "FAILED"]}',
    'request_id sequence request_type params reason requested_by created_at');

-- Every transition, written by the database itself: none can be forgotten, none changed.
CREATE TABLE ticket_transitions (
  transition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  request_id    uuid NOT NULL REFERENCES tickets (request_id),
  from_status   text,
  to_status     text NOT NULL,
  actor         text NOT NULL,
  attempt       smallint NOT NULL,
  happened_at   timestamptz NOT NULL
);
CREATE INDEX ticket_transitions_by_ticket ON ticket_transitions (request_id, transition_id);
CREATE TRIGGER ticket_transitions_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON ticket_transitions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION keep_ticket_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ticket_transitions (request_id, from_status, to_status, actor, attempt, happened_at)
  VALUES (NEW.request_id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.current_status END, NEW.current_status,
          NEW.moved_by, NEW.attempts, NEW.updated_at);
  RETURN NULL;
END $$;
CREATE TRIGGER tickets_filing_is_kept
  AFTER INSERT ON tickets FOR EACH ROW EXECUTE FUNCTION keep_ticket_transition();
-- A heartbeat is no transition; a second attempt is one.
CREATE TRIGGER tickets_transition_is_kept
  AFTER UPDATE ON tickets FOR EACH ROW
  WHEN (OLD.current_status <> NEW.current_status OR OLD.attempts <> NEW.attempts)
  EXECUTE FUNCTION keep_ticket_transition();

-- One result a ticket, which says the same as the ticket (TIX-2), and none without one.
CREATE TABLE ticket_results (
  request_id   uuid PRIMARY KEY,
  processor_id text NOT NULL CHECK (length(processor_id) BETWEEN 1 AND 64),
  status       text NOT NULL CHECK (status IN ('DONE', 'FAILED')),
  processed_at timestamptz NOT NULL,
  message      text NOT NULL CHECK (length(message) BETWEEN 1 AND 1000),
  FOREIGN KEY (request_id, status) REFERENCES tickets (request_id, current_status)
);
CREATE TRIGGER ticket_results_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON ticket_results
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION check_ticket_has_result() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM ticket_results WHERE request_id = NEW.request_id) THEN
    RAISE EXCEPTION 'a ticket ends with a result'
      USING ERRCODE = 'check_violation', CONSTRAINT = 'tickets_end_with_a_result';
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER tickets_end_with_a_result
  AFTER UPDATE ON tickets DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NEW.current_status IN ('DONE', 'FAILED')) EXECUTE FUNCTION check_ticket_has_result();

-- Who alone may do a thing at a time, and since when; a holder that died is over when its time is.
CREATE TABLE exclusive_leases (
  name       text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  token      uuid NOT NULL,
  holder     text NOT NULL CHECK (length(holder) BETWEEN 1 AND 64),
  started_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL CHECK (expires_at > started_at)
);

-- TICKET_REAPER_REPORT_V1 (TIX-3), written with what it tells of; the objects in S3 are copies (TIX-4).
CREATE TABLE ticket_reaper_reports (
  report_id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  asof            timestamptz NOT NULL,
  actor           text NOT NULL CHECK (length(actor) BETWEEN 1 AND 64),
  breaker_tripped boolean NOT NULL,
  snapshot_key    text NOT NULL UNIQUE CHECK (length(snapshot_key) BETWEEN 1 AND 200),
  report          jsonb NOT NULL CHECK (jsonb_typeof(report) = 'object'),
  published_at    timestamptz
);
CREATE INDEX ticket_reaper_reports_unpublished ON ticket_reaper_reports (report_id) WHERE published_at IS NULL;

-- ops_run_receipt (TIX-6): one a cycle, from its first line on.
CREATE TABLE ops_run_receipts (
  run_id      uuid PRIMARY KEY,
  sequence    bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  started_at  timestamptz NOT NULL,
  finished_at timestamptz,
  outcome     text NOT NULL CHECK (outcome IN ('RUNNING', 'COMPLETED', 'STOPPED', 'FAILED', 'ABANDONED')),
  receipt     jsonb NOT NULL CHECK (jsonb_typeof(receipt) = 'object'),
  CONSTRAINT ops_run_receipts_end_when_over CHECK (((outcome = 'RUNNING') = (finished_at IS NULL)) IS TRUE)
);
CREATE INDEX ops_run_receipts_running ON ops_run_receipts (sequence) WHERE outcome = 'RUNNING';

-- Tickets that ended may be deleted, with their history and result.
CREATE TRIGGER tickets_only_ended_go
  BEFORE DELETE ON tickets FOR EACH ROW WHEN (OLD.current_status NOT IN ('DONE', 'FAILED'))
  EXECUTE FUNCTION refuse_deletion();
CREATE TRIGGER ticket_transitions_go_with_it
  AFTER DELETE ON ticket_transitions REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION refuse_deletion_alone('tickets', 'request_id');
CREATE TRIGGER ticket_results_go_with_it
  AFTER DELETE ON ticket_results REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION refuse_deletion_alone('tickets', 'request_id');
CREATE INDEX ops_run_receipts_ended ON ops_run_receipts (finished_at, run_id) WHERE finished_at IS NOT NULL;
CREATE TRIGGER ops_run_receipts_only_ended_go
  BEFORE DELETE ON ops_run_receipts FOR EACH ROW WHEN (OLD.finished_at IS NULL) EXECUTE FUNCTION refuse_deletion();
CREATE INDEX ticket_reaper_reports_published ON ticket_reaper_reports (published_at, report_id)
  WHERE published_at IS NOT NULL;
CREATE TRIGGER ticket_reaper_reports_only_published_go
  BEFORE DELETE ON ticket_reaper_reports FOR EACH ROW WHEN (OLD.published_at IS NULL) EXECUTE FUNCTION refuse_deletion();
GRANT SELECT, DELETE ON tickets, ticket_transitions, ticket_results, ops_run_receipts, ticket_reaper_reports
  TO dpp_chamberlain;
GRANT SELECT (decision_id) ON execution_switches TO dpp_chamberlain; -- a decision that stands keeps its ticket
