-- What the chamberlain may delete of runs, tickets, authentication errors and workspaces (LIFE-8), and what holds him to
-- it: a row goes only from the state in which it has served, whoever deletes it; what belongs to a row goes with it and
-- never without; a run that goes leaves its charge in the books (D2). He has SELECT and DELETE, and can write nothing.

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

-- Runs: tombstones alone (D7). `updated_at` is when one became EXPIRED, since nothing changes it afterwards.
CREATE INDEX runs_tombstones ON runs (updated_at, run_id) WHERE status = 'EXPIRED';
CREATE TRIGGER runs_only_tombstones_go
  BEFORE DELETE ON runs FOR EACH ROW WHEN (OLD.status <> 'EXPIRED') EXECUTE FUNCTION refuse_deletion();
CREATE TRIGGER runs_are_not_truncated
  BEFORE TRUNCATE ON runs FOR EACH STATEMENT EXECUTE FUNCTION refuse_deletion();

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
GRANT SELECT, DELETE ON runs TO dpp_chamberlain;

-- Tickets that ended, with their history and result. By time and id, so that a page of them is read in order.
DROP INDEX tickets_ended;
CREATE INDEX tickets_ended ON tickets (updated_at, request_id) INCLUDE (request_type, current_status)
  WHERE current_status IN ('DONE', 'FAILED');
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

-- Events that were handled, with their ledger row; errors that ended, with all that is known of them.
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

-- Workspaces that are cleaned; their events go first, week by week.
CREATE INDEX workspaces_cleaned ON workspaces (cleaned_at, workspace_id) WHERE cleaned_at IS NOT NULL;
CREATE TRIGGER workspaces_only_cleaned_go
  BEFORE DELETE ON workspaces FOR EACH ROW WHEN (OLD.cleaned_at IS NULL) EXECUTE FUNCTION refuse_deletion();
GRANT SELECT, DELETE ON workspaces TO dpp_chamberlain;

-- Events by ISO week of UTC, as the table was but for its key, which holds what it is divided by.
ALTER TABLE workspace_events RENAME TO workspace_events_whole;
ALTER INDEX workspace_events_pkey RENAME TO workspace_events_whole_pkey;
ALTER INDEX workspace_events_by_workspace RENAME TO workspace_events_whole_by_workspace;
ALTER SEQUENCE workspace_events_event_id_seq RENAME TO workspace_events_whole_event_id_seq;
CREATE TABLE workspace_events (
  event_id     bigint GENERATED ALWAYS AS IDENTITY,
  workspace_id uuid NOT NULL CONSTRAINT workspace_events_workspace_id_fkey REFERENCES workspaces (workspace_id),
  happened_at  timestamptz NOT NULL,
  actor        text NOT NULL CONSTRAINT workspace_events_actor_check CHECK (length(actor) BETWEEN 1 AND 128),
  kind         text NOT NULL CONSTRAINT workspace_events_kind_check
    CHECK (kind IN ('CREATED', 'RENAMED', 'DESIRED', 'PHASE', 'STARTED', 'COMPLETED', 'FAILED', 'RETRYING', 'RECOVERED',
                    'CLEANED')),
  from_value   text,
  to_value     text,
  reason       text,
  message      text CONSTRAINT workspace_events_message_check CHECK (length(message) <= 500),
  CONSTRAINT workspace_events_pkey PRIMARY KEY (event_id, happened_at)
) PARTITION BY RANGE (happened_at);
CREATE INDEX workspace_events_by_workspace ON workspace_events (workspace_id, event_id DESC);
-- What has no week of its own: an insert never fails for that. Its old rows go one by one.
CREATE TABLE workspace_events_default PARTITION OF workspace_events DEFAULT;
CREATE INDEX workspace_events_default_by_age ON workspace_events_default (happened_at, event_id);

-- The weeks that there are.
CREATE FUNCTION workspace_event_weeks() RETURNS TABLE (part regclass, starts_at timestamptz, ends_at timestamptz)
LANGUAGE sql STABLE AS $$
  SELECT inhrelid::regclass, bounds[1]::timestamptz, bounds[2]::timestamptz
  FROM pg_inherits JOIN pg_class ON pg_class.oid = inhrelid
  CROSS JOIN regexp_match(pg_get_expr(relpartbound, inhrelid), 'FROM \(''([^'']+)''\) TO \(''([^'']+)''\)') AS bounds
  WHERE inhparent = 'workspace_events'::regclass AND bounds IS NOT NULL
$$;

-- Make the week of a time and so many after it, those that are missing; how many were made. It asks for each lock in turn
-- and gives up where one takes over 300 ms, three of them at most, so that nobody behind it waits for a second. A week of which rows lie in the
-- default partition is not made: they are found there.
CREATE FUNCTION make_workspace_event_weeks(from_time timestamptz, ahead integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '300ms' AS $$
DECLARE
  made integer := 0;
  starts timestamptz;
  ends timestamptz;
  part text;
BEGIN
  IF (ahead BETWEEN 0 AND 52) IS NOT TRUE THEN
    RAISE EXCEPTION 'from 0 to 52 weeks ahead' USING ERRCODE = 'invalid_parameter_value';
  END IF;
  FOR week IN 0 .. ahead LOOP
    starts := date_trunc('week', from_time, 'UTC') + week * interval '168 hours';
    ends := starts + interval '168 hours';
    part := 'workspace_events_' || to_char(starts AT TIME ZONE 'UTC', 'IYYY"w"IW');
    CONTINUE WHEN to_regclass(part) IS NOT NULL;
    LOCK TABLE workspaces IN SHARE ROW EXCLUSIVE MODE; -- the foreign key of a partition asks for it
    LOCK TABLE ONLY workspace_events_default IN ACCESS EXCLUSIVE MODE;
    CONTINUE WHEN EXISTS (
      SELECT FROM workspace_events_default WHERE happened_at >= starts AND happened_at < ends);
    EXECUTE format('CREATE TABLE %I (LIKE workspace_events INCLUDING CONSTRAINTS)', part);
    -- A trigger of statements is asked at the table that is named, and a partition can be named.
    EXECUTE format('CREATE TRIGGER workspace_events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %I'
                   ' FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', part);
    EXECUTE format('ALTER TABLE workspace_events ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', part, starts, ends);
    made := made + 1;
  END LOOP;
  RETURN made;
END $$;

-- Drop the oldest week that is wholly before a time, if there is one: what it was, how many rows and bytes. As patient
-- with locks as the other.
CREATE FUNCTION drop_workspace_event_week(before timestamptz, OUT part text, OUT ended_at timestamptz, OUT rows bigint,
  OUT bytes bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '300ms' AS $$
BEGIN
  SELECT week.part::text, week.ends_at INTO part, ended_at FROM workspace_event_weeks() AS week
  WHERE week.ends_at <= before ORDER BY week.ends_at LIMIT 1;
  IF part IS NULL THEN
    RETURN;
  END IF;
  EXECUTE format('SELECT count(*) FROM %s', part) INTO rows; -- before the lock: nothing happens in a week that is over
  bytes := pg_total_relation_size(part::regclass);
  EXECUTE format('DROP TABLE %s', part);
END $$;

-- How many events `drop_workspace_event_week` and then the default partition's turn would take, counted up to a bound.
CREATE FUNCTION due_workspace_events(before timestamptz, at_most bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  due bigint := 0;
  more bigint;
  part regclass;
BEGIN
  FOR part IN SELECT week.part FROM workspace_event_weeks() AS week WHERE week.ends_at <= before ORDER BY week.ends_at LOOP
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT %s) AS bounded', part, at_most - due) INTO more;
    due := due + more;
    EXIT WHEN due >= at_most;
  END LOOP;
  SELECT count(*) INTO more FROM (
    SELECT FROM workspace_events_default WHERE happened_at < before ORDER BY happened_at LIMIT at_most - due) AS bounded;
  RETURN due + more;
END $$;

REVOKE EXECUTE ON FUNCTION make_workspace_event_weeks, drop_workspace_event_week FROM PUBLIC;
GRANT EXECUTE ON FUNCTION make_workspace_event_weeks, drop_workspace_event_week TO dpp_chamberlain;

-- The rows as they were, with a month of weeks ahead. What is over a year old is for the default partition.
SELECT make_workspace_event_weeks(week, 0) FROM (
  SELECT DISTINCT date_trunc('week', happened_at, 'UTC') AS week FROM workspace_events_whole
  WHERE happened_at BETWEEN now() - interval '1 year' AND now()) AS weeks;
SELECT make_workspace_event_weeks(now(), 4);
INSERT INTO workspace_events OVERRIDING SYSTEM VALUE SELECT * FROM workspace_events_whole;
SELECT setval('workspace_events_event_id_seq', last_value, is_called) FROM workspace_events_whole_event_id_seq;
DROP TABLE workspace_events_whole;
CREATE TRIGGER workspace_events_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON workspace_events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER workspace_events_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON workspace_events_default FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON workspace_events TO dpp_workspace_api, dpp_workspace_monitor, dpp_workspace_reconciler, dpp_chamberlain;
GRANT SELECT, DELETE ON workspace_events_default TO dpp_chamberlain;
