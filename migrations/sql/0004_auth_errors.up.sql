-- Authentication errors (004; AUTH-1 … AUTH-11): what services report, the outbox that carries it on, the ledger of what
-- was handled, clusters of one failure, and what was decided. Table names are the source document's.
-- No DEFAULT means anything here (004 §3.3): every value is written by the code path that creates a row.
-- Every CHECK over nullable columns ends in IS TRUE, since a NULL check counts as passed.

CREATE TABLE auth_error (
  auth_error_id      uuid PRIMARY KEY,
  sequence           bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  reported_by        text NOT NULL REFERENCES tenants (tenant_id),
  -- The requestId (004 §4). Each reporter has its own, so that none can take or learn of another's.
  dedup_key          text NOT NULL CHECK (length(dedup_key) BETWEEN 1 AND 200),
  payload_hash       text NOT NULL CHECK (payload_hash ~ '^[0-9a-f]{64}$'),
  occurred_at        timestamptz NOT NULL,
  http_status        smallint NOT NULL CHECK (http_status BETWEEN 100 AND 599),
  exception_class    text NOT NULL CHECK (length(exception_class) BETWEEN 1 AND 300),
  exception_message  text CHECK (length(exception_message) BETWEEN 1 AND 1000),
  root_cause_class   text CHECK (length(root_cause_class) BETWEEN 1 AND 300),
  root_cause_message text CHECK (length(root_cause_message) BETWEEN 1 AND 1000),
  stacktrace         text NOT NULL CHECK (length(stacktrace) BETWEEN 1 AND 8000),
  service            text CHECK (length(service) BETWEEN 1 AND 64),
  http_method        text CHECK (length(http_method) BETWEEN 1 AND 16),
  request_path       text CHECK (length(request_path) BETWEEN 1 AND 1000),
  status             text NOT NULL CHECK (status IN ('NEW', 'RETRY', 'ANALYSIS_REQUESTED', 'ANALYSIS_COMPLETED',
                       'PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED')),
  -- How often a handler failed on it, and when it is tried again: only while it stands at RETRY.
  retry_count        smallint NOT NULL CHECK (retry_count >= 0),
  next_retry_at      timestamptz,
  last_failure       text CHECK (length(last_failure) BETWEEN 1 AND 500),
  analyzed_at        timestamptz,
  escalated_at       timestamptz,
  -- Who made the last transition, and why.
  moved_by           text NOT NULL CHECK (length(moved_by) BETWEEN 1 AND 128),
  created_at         timestamptz NOT NULL,
  updated_at         timestamptz NOT NULL CHECK (updated_at >= created_at),

  CONSTRAINT auth_error_dedup_key UNIQUE (reported_by, dedup_key),
  CONSTRAINT auth_error_waits_iff_retry CHECK ((status = 'RETRY') = (next_retry_at IS NOT NULL)),
  CONSTRAINT auth_error_is_analyzed_once CHECK ((CASE
    WHEN status IN ('NEW', 'RETRY', 'ANALYSIS_REQUESTED') THEN analyzed_at IS NULL
    WHEN status IN ('ANALYSIS_COMPLETED', 'PROCESSED') THEN analyzed_at IS NOT NULL
    ELSE true END) IS TRUE),
  CONSTRAINT auth_error_escalated_when_analyzed CHECK (escalated_at IS NULL OR analyzed_at IS NOT NULL)
);
-- Pages: all, of one state, of one class; the newest occurrence first.
CREATE INDEX auth_error_by_time ON auth_error (occurred_at, sequence);
CREATE INDEX auth_error_by_status ON auth_error (status, occurred_at, sequence);
CREATE INDEX auth_error_by_class ON auth_error (exception_class, occurred_at, sequence);

-- The machine of dpp/auth_errors/machine.py (AUTH-3), and what was reported, which never changes.
CREATE TRIGGER auth_error_follows_the_machine
  BEFORE INSERT OR UPDATE ON auth_error FOR EACH ROW EXECUTE FUNCTION follow_machine('status',
    '{"status": "NEW"}',
    '{"NEW": ["RETRY", "ANALYSIS_REQUESTED", "FAILED", "RESOLVED", "IGNORED"],
      "RETRY": ["RETRY", "ANALYSIS_REQUESTED", "ANALYSIS_COMPLETED", "FAILED", "RESOLVED", "IGNORED"],
      "ANALYSIS_REQUESTED": ["RETRY", "ANALYSIS_COMPLETED", "FAILED", "RESOLVED", "IGNORED"],
      "ANALYSIS_COMPLETED": ["ANALYSIS_COMPLETED", "PROCESSED", "FAILED", "RESOLVED", "IGNORED"]}',
    'auth_error_id sequence reported_by dedup_key payload_hash occurred_at http_status exception_class '
    'exception_message root_cause_class root_cause_message stacktrace service http_method request_path '
    'created_at');

-- Every transition, written by the database itself: none can be forgotten, none changed.
CREATE TABLE auth_error_transition (
  transition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  auth_error_id uuid NOT NULL REFERENCES auth_error (auth_error_id),
  from_status   text,
  to_status     text NOT NULL,
  actor         text NOT NULL,
  failure       text,
  happened_at   timestamptz NOT NULL
);
CREATE INDEX auth_error_transition_by_error ON auth_error_transition (auth_error_id, transition_id);
CREATE TRIGGER auth_error_transition_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON auth_error_transition
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION keep_auth_error_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO auth_error_transition (auth_error_id, from_status, to_status, actor, failure, happened_at)
  VALUES (NEW.auth_error_id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.status END, NEW.status, NEW.moved_by,
          CASE WHEN NEW.status = 'RETRY' THEN NEW.last_failure END, NEW.updated_at);
  RETURN NULL;
END $$;
CREATE TRIGGER auth_error_report_is_kept
  AFTER INSERT ON auth_error FOR EACH ROW EXECUTE FUNCTION keep_auth_error_transition();
-- An escalation is no transition, it has its decision; a second failure is one.
CREATE TRIGGER auth_error_transition_is_kept
  AFTER UPDATE ON auth_error FOR EACH ROW
  WHEN (OLD.status <> NEW.status OR OLD.retry_count <> NEW.retry_count)
  EXECUTE FUNCTION keep_auth_error_transition();

-- The outbox (004 §3.2): what was committed with an error and is to be published.
CREATE TABLE outbox_message (
  outbox_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  aggregate_type   text NOT NULL CHECK (aggregate_type = 'auth_error'),
  aggregate_id     uuid NOT NULL REFERENCES auth_error (auth_error_id),
  event_type       text NOT NULL,
  idempotency_key  text NOT NULL CONSTRAINT outbox_message_idempotency_key UNIQUE,
  payload          jsonb NOT NULL,
  payload_hash     text NOT NULL CHECK (payload_hash ~ '^[0-9a-f]{64}$'),
  status           text NOT NULL CHECK (status IN ('PENDING', 'PROCESSING', 'PUBLISHED', 'DEAD')),
  processing_owner uuid,
  processing_since timestamptz,
  retry_count      smallint NOT NULL CHECK (retry_count >= 0),
  next_retry_at    timestamptz,
  last_error       text CHECK (length(last_error) BETWEEN 1 AND 500),
  published_at     timestamptz,
  -- The last time that it was sent, first or again: what nobody handled is sent once more.
  last_sent_at     timestamptz,
  -- When the consumer's ledger came to its end for it, which may be before its publisher could note that it was sent.
  handled_at       timestamptz,
  created_at       timestamptz NOT NULL,

  -- The keys that the document names (004 §6): of the error's id, never of its requestId.
  CONSTRAINT outbox_message_key_is_of_the_error CHECK (idempotency_key = (CASE event_type
    WHEN 'auth.error.recorded.v1' THEN 'auth_error:recorded:'
    WHEN 'auth.error.analysis.requested.v1' THEN 'auth_error:analysis_requested:'
  END) || aggregate_id::text IS TRUE),
  CONSTRAINT outbox_message_payload_names_the_error
    CHECK ((jsonb_typeof(payload) = 'object' AND payload ->> 'authErrorId' = aggregate_id::text) IS TRUE),
  CONSTRAINT outbox_message_shape CHECK ((CASE status
    WHEN 'PENDING' THEN num_nonnulls(processing_owner, processing_since, published_at) = 0 AND next_retry_at IS NOT NULL
    WHEN 'PROCESSING' THEN num_nonnulls(processing_owner, processing_since) = 2
                       AND num_nonnulls(published_at, next_retry_at) = 0
    WHEN 'PUBLISHED' THEN num_nonnulls(processing_owner, processing_since, next_retry_at) = 0
                      AND num_nonnulls(published_at, last_sent_at) = 2
    WHEN 'DEAD' THEN num_nonnulls(processing_owner, processing_since, next_retry_at, published_at) = 0
                 AND last_error IS NOT NULL
  END) IS TRUE)
);
-- What is due; what an owner has; what of one error is still to go, in its order; what was sent and not handled; what died.
CREATE INDEX outbox_message_pending ON outbox_message (next_retry_at, outbox_id) WHERE status = 'PENDING';
CREATE INDEX outbox_message_processing ON outbox_message (processing_since, outbox_id) WHERE status = 'PROCESSING';
CREATE INDEX outbox_message_to_go ON outbox_message (aggregate_id, outbox_id)
  WHERE status IN ('PENDING', 'PROCESSING');
CREATE INDEX outbox_message_unhandled ON outbox_message (last_sent_at, outbox_id)
  WHERE status = 'PUBLISHED' AND handled_at IS NULL;
CREATE INDEX outbox_message_handled ON outbox_message (handled_at, outbox_id) WHERE handled_at IS NOT NULL;
CREATE INDEX outbox_message_dead ON outbox_message (outbox_id) WHERE status = 'DEAD';

-- To itself: taken over, sent again, or handled, which may be known before it is known that it was sent. DEAD goes
-- back to PENDING by an operator.
CREATE TRIGGER outbox_message_follows_the_machine
  BEFORE INSERT OR UPDATE ON outbox_message FOR EACH ROW EXECUTE FUNCTION follow_machine('status',
    '{"status": "PENDING"}',
    '{"PENDING": ["PENDING", "PROCESSING"], "PROCESSING": ["PROCESSING", "PUBLISHED", "PENDING", "DEAD"],
      "PUBLISHED": ["PUBLISHED"], "DEAD": ["DEAD", "PENDING"]}',
    'outbox_id aggregate_type aggregate_id event_type idempotency_key payload payload_hash created_at');

-- The consumer's ledger (004 §3.3): one row an outbox message, made by `ensure_row_exists` alone.
CREATE TABLE processed_message (
  outbox_id      bigint PRIMARY KEY REFERENCES outbox_message (outbox_id),
  status         text NOT NULL CHECK (status IN ('PENDING', 'PROCESSING', 'RETRY_WAIT', 'DONE', 'DEAD')),
  -- Counted when the lease is taken, so that an attempt that crashed counts.
  attempts       smallint NOT NULL CHECK (attempts >= 0),
  lease_owner    uuid,
  lease_until    timestamptz,
  next_retry_at  timestamptz,
  last_error     text CHECK (length(last_error) BETWEEN 1 AND 500),
  -- When the dead letter's copy in SQS stood; until then it is sent again.
  dead_lettered_at timestamptz,
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL CHECK (updated_at >= created_at),

  CONSTRAINT processed_message_shape CHECK ((CASE status
    WHEN 'PENDING' THEN num_nonnulls(lease_owner, lease_until, next_retry_at) = 0
    WHEN 'PROCESSING' THEN num_nonnulls(lease_owner, lease_until) = 2 AND next_retry_at IS NULL AND attempts > 0
    WHEN 'RETRY_WAIT' THEN num_nonnulls(lease_owner, lease_until) = 0
                       AND num_nonnulls(next_retry_at, last_error) = 2 AND attempts > 0
    WHEN 'DONE' THEN num_nonnulls(lease_owner, lease_until, next_retry_at) = 0 AND attempts > 0
    WHEN 'DEAD' THEN num_nonnulls(lease_owner, lease_until, next_retry_at) = 0 AND last_error IS NOT NULL
  END) IS TRUE),
  CONSTRAINT processed_message_dead_letter CHECK (dead_lettered_at IS NULL OR status = 'DEAD')
);
CREATE INDEX processed_message_waiting ON processed_message (next_retry_at) WHERE status = 'RETRY_WAIT';
CREATE INDEX processed_message_dead ON processed_message (outbox_id) WHERE status = 'DEAD';

-- DEAD to itself marks its copy in the dead-letter queue; to PENDING, an operator sends it again.
CREATE TRIGGER processed_message_follows_the_machine
  BEFORE INSERT OR UPDATE ON processed_message FOR EACH ROW EXECUTE FUNCTION follow_machine('status',
    '{"status": "PENDING", "attempts": 0}',
    '{"PENDING": ["PROCESSING", "DEAD"], "RETRY_WAIT": ["PROCESSING", "DEAD"],
      "PROCESSING": ["PROCESSING", "DONE", "RETRY_WAIT", "DEAD"], "DEAD": ["DEAD", "PENDING"]}',
    'outbox_id');

-- Errors of one stack hash (AUTH-10). An error is in one cluster for each version of the hash.
CREATE TABLE auth_error_cluster (
  cluster_id      uuid PRIMARY KEY,
  hash_version    text NOT NULL CHECK (hash_version ~ '^v[0-9]{1,4}$'),
  stack_hash      text NOT NULL CHECK (stack_hash ~ '^[0-9a-f]{64}$'),
  exception_class text NOT NULL CHECK (length(exception_class) BETWEEN 1 AND 300),
  error_count     bigint NOT NULL CHECK (error_count > 0),
  first_seen_at   timestamptz NOT NULL,
  last_seen_at    timestamptz NOT NULL,
  escalated_at    timestamptz,
  UNIQUE (hash_version, stack_hash)
);
CREATE INDEX auth_error_cluster_by_growth ON auth_error_cluster (last_seen_at DESC, cluster_id);
CREATE TABLE auth_error_cluster_item (
  cluster_id    uuid NOT NULL REFERENCES auth_error_cluster (cluster_id),
  auth_error_id uuid NOT NULL REFERENCES auth_error (auth_error_id),
  occurred_at   timestamptz NOT NULL,
  sequence      bigint NOT NULL,
  -- When the platform took the error in, by its own clock: what a policy counts can't be put off by a reporter's.
  reported_at   timestamptz NOT NULL,
  PRIMARY KEY (auth_error_id, cluster_id)
);
CREATE INDEX auth_error_cluster_item_by_time ON auth_error_cluster_item (cluster_id, occurred_at, sequence);
CREATE INDEX auth_error_cluster_item_lately ON auth_error_cluster_item (cluster_id, reported_at);

-- Deployments of what reports errors, as told by operators: policies ask how long ago one was.
CREATE TABLE auth_error_deploy (
  deploy_id   uuid PRIMARY KEY,
  service     text CHECK (length(service) BETWEEN 1 AND 64),
  label       text NOT NULL CHECK (length(label) BETWEEN 1 AND 200),
  actor       text NOT NULL CHECK (length(actor) BETWEEN 1 AND 64),
  deployed_at timestamptz NOT NULL
);
CREATE INDEX auth_error_deploy_latest ON auth_error_deploy (deployed_at DESC);
CREATE TRIGGER auth_error_deploy_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON auth_error_deploy FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Policies as data: each version whole, the newest decides; decisions name the version that made them.
CREATE TABLE auth_error_policy_set (
  version    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  policies   jsonb NOT NULL CHECK (jsonb_typeof(policies) = 'array'),
  actor      text NOT NULL CHECK (length(actor) BETWEEN 1 AND 64),
  reason     text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  created_at timestamptz NOT NULL
);
CREATE TRIGGER auth_error_policy_set_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON auth_error_policy_set FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What an operator or the system decided (AUTH-11), by whom, why, and from which inputs.
CREATE TABLE auth_error_decision (
  decision_id    uuid PRIMARY KEY,
  sequence       bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  auth_error_id  uuid NOT NULL REFERENCES auth_error (auth_error_id),
  decision_type  text NOT NULL CHECK (decision_type IN ('PROCESS', 'RESOLVE', 'IGNORE', 'FAIL', 'ESCALATE')),
  decided_by     text NOT NULL CHECK (decided_by IN ('OPERATOR', 'SYSTEM')),
  actor          text NOT NULL CHECK (length(actor) BETWEEN 1 AND 128),
  reason         text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
  inputs         jsonb NOT NULL CHECK (jsonb_typeof(inputs) = 'object'),
  policy_version bigint REFERENCES auth_error_policy_set (version),
  policy_name    text,
  from_status    text NOT NULL,
  to_status      text NOT NULL,
  decided_at     timestamptz NOT NULL,
  CONSTRAINT auth_error_decision_names_its_policy
    CHECK ((decided_by = 'SYSTEM') = (num_nonnulls(policy_version, policy_name) = 2)),
  CONSTRAINT auth_error_decision_maps_to_its_status CHECK (to_status = CASE decision_type
    WHEN 'PROCESS' THEN 'PROCESSED' WHEN 'RESOLVE' THEN 'RESOLVED' WHEN 'IGNORE' THEN 'IGNORED'
    WHEN 'FAIL' THEN 'FAILED' WHEN 'ESCALATE' THEN 'ANALYSIS_COMPLETED' END)
);
CREATE INDEX auth_error_decision_by_error ON auth_error_decision (auth_error_id, sequence);
CREATE TRIGGER auth_error_decision_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON auth_error_decision
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What may be deleted: events that were handled, with their ledger row; errors that ended, with all that is known of them.
CREATE INDEX outbox_message_by_error ON outbox_message (aggregate_id);
CREATE TRIGGER outbox_message_only_handled_go
  BEFORE DELETE ON outbox_message FOR EACH ROW WHEN (OLD.handled_at IS NULL) EXECUTE FUNCTION refuse_deletion();
CREATE TRIGGER processed_message_goes_with_it
  AFTER DELETE ON processed_message REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION refuse_deletion_alone('outbox_message', 'outbox_id');
CREATE INDEX auth_error_ended ON auth_error (updated_at, auth_error_id)
  WHERE status IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED');
CREATE TRIGGER auth_error_only_ended_go
  BEFORE DELETE ON auth_error FOR EACH ROW WHEN (OLD.status NOT IN ('PROCESSED', 'FAILED', 'RESOLVED', 'IGNORED'))
  EXECUTE FUNCTION refuse_deletion();
CREATE TRIGGER auth_error_transition_goes_with_it
  AFTER DELETE ON auth_error_transition REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION refuse_deletion_alone('auth_error', 'auth_error_id');
CREATE TRIGGER auth_error_decision_goes_with_it
  AFTER DELETE ON auth_error_decision REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION refuse_deletion_alone('auth_error', 'auth_error_id');
CREATE TRIGGER auth_error_cluster_item_goes_with_it
  AFTER DELETE ON auth_error_cluster_item REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION refuse_deletion_alone('auth_error', 'auth_error_id');
-- `error_count` is how many errors of a cluster are kept, and a cluster without one goes: first those, looked at anew
-- where an error joined meanwhile, and what then stays has more than it loses.
CREATE FUNCTION keep_cluster_count() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
  PERFORM FROM auth_error_cluster WHERE cluster_id IN (SELECT cluster_id FROM gone) ORDER BY cluster_id FOR UPDATE;
  DELETE FROM auth_error_cluster c USING (SELECT cluster_id, count(*) AS errors FROM gone GROUP BY cluster_id) AS lost
  WHERE c.cluster_id = lost.cluster_id AND c.error_count <= lost.errors;
  UPDATE auth_error_cluster c SET error_count = c.error_count - lost.errors
  FROM (SELECT cluster_id, count(*) AS errors FROM gone GROUP BY cluster_id) AS lost
  WHERE c.cluster_id = lost.cluster_id;
  RETURN NULL;
END $$;
CREATE TRIGGER auth_error_cluster_counts_what_is_kept
  AFTER DELETE ON auth_error_cluster_item REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  EXECUTE FUNCTION keep_cluster_count();
GRANT SELECT, DELETE ON outbox_message, processed_message, auth_error, auth_error_transition, auth_error_decision,
  auth_error_cluster_item TO dpp_chamberlain;
