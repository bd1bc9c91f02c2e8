-- Workspaces (003; WS-1 … WS-14): what is wanted, what was seen, and what is being done about it.
-- Three writers share a row and no column (003 §3): each works under a role of its own, which may write its columns, and
-- the trigger refuses everybody else, the owner of the table too.
-- Every CHECK over nullable columns ends in IS TRUE, since a NULL check counts as passed.

CREATE FUNCTION are_conditions(conditions jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_typeof(conditions) = 'object' AND NOT EXISTS (
    SELECT FROM jsonb_each(conditions) AS one (name, value)
    WHERE (name ~ '^[a-z]+(\.[a-z0-9_]+){1,2}$'
           AND jsonb_typeof(value) = 'object'
           AND jsonb_typeof(value -> 'status') = 'boolean'
           AND value ->> 'reason' ~ '^[A-Za-z]{1,64}$'
           AND length(value ->> 'message') <= 500
           AND value ->> 'last_transition_time' ~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|\+00:00)$'
           AND value - ARRAY['status', 'reason', 'message', 'last_transition_time'] = '{}') IS NOT TRUE)
$$;

-- The phase that conditions make, by the document's priority (003 §5): the same as dpp/workspaces/control/conditions.py.
CREATE FUNCTION workspace_phase(conditions jsonb, deleted_at timestamptz) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE
    WHEN deleted_at IS NOT NULL THEN 'DELETED'
    WHEN NOT coalesce((conditions #>> '{policy.healthy,status}')::boolean, true) THEN 'ERROR'
    WHEN (conditions #>> '{storage.volume_ready,status}')::boolean THEN CASE WHEN EXISTS (
      SELECT FROM jsonb_each(conditions) AS one (name, value)
      WHERE name LIKE 'infra.%.container\_ready' AND (value ->> 'status')::boolean) THEN 'RUNNING' ELSE 'STANDBY' END
    WHEN (conditions #>> '{storage.archive_ready,status}')::boolean THEN 'ARCHIVED'
    ELSE 'PENDING'
  END
$$;

CREATE TABLE workspaces (
  workspace_id        uuid PRIMARY KEY,
  sequence            bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  tenant_id           text NOT NULL REFERENCES tenants (tenant_id),
  created_at          timestamptz NOT NULL,
  -- The Idempotency-Key that it was created under, and what was asked for under it.
  request_key         text NOT NULL CHECK (length(request_key) BETWEEN 8 AND 64),
  request_hash        text NOT NULL CHECK (request_hash ~ '^[0-9a-f]{64}$'),

  -- The API's.
  name                text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  desired_state       text NOT NULL CHECK (desired_state IN ('DELETED', 'PENDING', 'ARCHIVED', 'STANDBY', 'RUNNING')),
  desired_by          text NOT NULL CHECK (length(desired_by) BETWEEN 1 AND 128),
  deleted_at          timestamptz,
  standby_ttl_seconds integer CHECK (standby_ttl_seconds BETWEEN 60 AND 31536000),
  archive_ttl_seconds integer CHECK (archive_ttl_seconds BETWEEN 60 AND 31536000),
  last_access_at      timestamptz NOT NULL,
  -- When the clock lowers what is wanted: the trigger computes it, so that nothing that bears on it can be forgotten.
  idle_at             timestamptz,

  -- The monitor's.
  conditions          jsonb NOT NULL DEFAULT '{}' CONSTRAINT workspace_conditions_shape CHECK (are_conditions(conditions)),
  phase               text NOT NULL DEFAULT 'PENDING'
    CHECK (phase IN ('DELETED', 'ERROR', 'RUNNING', 'STANDBY', 'ARCHIVED', 'PENDING')),
  observed_at         timestamptz,

  -- The reconciler's. acted_at: when something was last done; settled_at: when the last operation ended.
  operation           text NOT NULL DEFAULT 'NONE' CHECK (operation IN ('NONE', 'PROVISIONING', 'RESTORING', 'STARTING',
                        'STOPPING', 'ARCHIVING', 'DISCARDING', 'DELETING')),
  op_id               uuid,
  op_started_at       timestamptz,
  acted_at            timestamptz,
  archive_key         text,
  home_ctx            jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(home_ctx) = 'object'),
  error_info          jsonb,
  error_count         integer NOT NULL DEFAULT 0 CHECK (error_count >= 0),
  start_count         integer NOT NULL DEFAULT 0 CHECK (start_count >= 0),
  next_attempt_at     timestamptz,
  -- When something was first tried in this attempt: its deadline runs from there, not while nobody was at work.
  tried_at            timestamptz,
  settled_at          timestamptz,
  cleaned_at          timestamptz,
  lease_owner         uuid,
  lease_until         timestamptz,
  handed_at           timestamptz,
  next_look_at        timestamptz,

  CONSTRAINT workspace_request_key UNIQUE (tenant_id, request_key),
  CONSTRAINT workspace_deleted_iff_wanted CHECK ((desired_state = 'DELETED') = (deleted_at IS NOT NULL)),
  CONSTRAINT workspace_cleaned_when_deleted CHECK (cleaned_at IS NULL OR (deleted_at IS NOT NULL AND operation = 'NONE')),
  CONSTRAINT workspace_operation_has_its_id CHECK ((CASE operation
    WHEN 'NONE' THEN num_nonnulls(op_started_at, acted_at, tried_at, lease_owner, lease_until, handed_at) = 0
    ELSE num_nonnulls(op_id, op_started_at) = 2 END) IS TRUE),
  CONSTRAINT workspace_lease_is_whole CHECK (num_nonnulls(lease_owner, lease_until) IN (0, 2)),
  CONSTRAINT workspace_archive_key_is_its_own CHECK (
    archive_key IS NULL OR archive_key ~ ('^' || workspace_id::text || '/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/home\.tar\.zst$')),
  CONSTRAINT workspace_error_shape CHECK (error_info IS NULL OR (
    jsonb_typeof(error_info) = 'object' AND error_info ->> 'reason' ~ '^[A-Za-z]{1,64}$'
    AND length(error_info ->> 'message') <= 500 AND jsonb_typeof(error_info -> 'is_terminal') = 'boolean'
    AND jsonb_typeof(error_info -> 'retry_count') = 'number') IS TRUE),
  -- 003 §4: an error that ends an operation resets it in the same transaction.
  CONSTRAINT workspace_terminal_error_ends_operation
    CHECK (operation = 'NONE' OR error_info IS NULL OR error_info ->> 'is_terminal' = 'false')
) WITH (fillfactor = 80);

-- An owner's pages; the fleet's pages; what is not as it is wanted; what the clock lowers.
CREATE INDEX workspaces_by_tenant ON workspaces (tenant_id, sequence DESC);
CREATE INDEX workspaces_fleet ON workspaces (sequence) WHERE cleaned_at IS NULL;
CREATE INDEX workspaces_unsettled ON workspaces (coalesce(next_look_at, '-infinity'), sequence)
  WHERE cleaned_at IS NULL
    AND (operation <> 'NONE' OR phase <> 'ERROR' AND desired_state <> phase OR deleted_at IS NOT NULL);
CREATE INDEX workspaces_idle ON workspaces (idle_at) WHERE idle_at IS NOT NULL;
CREATE INDEX workspaces_in_error ON workspaces (sequence) WHERE phase = 'ERROR';

GRANT SELECT ON workspaces TO dpp_workspace_api, dpp_workspace_monitor, dpp_workspace_reconciler;
GRANT INSERT (workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state, desired_by, standby_ttl_seconds,
  archive_ttl_seconds, last_access_at) ON workspaces TO dpp_workspace_api;
GRANT UPDATE (name, desired_state, desired_by, deleted_at, standby_ttl_seconds, archive_ttl_seconds, last_access_at)
  ON workspaces TO dpp_workspace_api;
GRANT UPDATE (conditions, phase, observed_at) ON workspaces TO dpp_workspace_monitor;
GRANT UPDATE (operation, op_id, op_started_at, acted_at, archive_key, home_ctx, error_info, error_count, start_count,
  next_attempt_at, tried_at, settled_at, cleaned_at, lease_owner, lease_until, handed_at, next_look_at)
  ON workspaces TO dpp_workspace_reconciler;

CREATE FUNCTION check_workspace_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user NOT IN ('dpp_workspace_api', 'dpp_workspace_monitor', 'dpp_workspace_reconciler') THEN
    RAISE EXCEPTION 'a workspace is written by its API, monitor or reconciler, each under its role'
      USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'workspace_single_writer';
  END IF;
  IF current_user = 'dpp_workspace_api' THEN
    NEW.idle_at := NEW.last_access_at + interval '1 second' * CASE NEW.desired_state
      WHEN 'RUNNING' THEN NEW.standby_ttl_seconds
      WHEN 'STANDBY' THEN coalesce(NEW.standby_ttl_seconds, 0) + NEW.archive_ttl_seconds END;
  END IF;
  IF TG_OP = 'INSERT' THEN
    RETURN NEW;
  END IF;
  CASE current_user
    WHEN 'dpp_workspace_api' THEN
      IF OLD.deleted_at IS NOT NULL THEN
        RAISE EXCEPTION 'a deleted workspace never changes'
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_is_deleted';
      END IF;
      -- 003 §5: from these phases alone, and never while something is being done.
      IF NEW.deleted_at IS NOT NULL
         AND (OLD.phase NOT IN ('PENDING', 'ARCHIVED', 'ERROR') OR OLD.operation <> 'NONE') THEN
        RAISE EXCEPTION 'not deleted from % while %', OLD.phase, OLD.operation
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_deletable';
      END IF;
    WHEN 'dpp_workspace_monitor' THEN
      IF NEW.phase <> workspace_phase(NEW.conditions, NEW.deleted_at) THEN
        RAISE EXCEPTION 'these conditions are not %', NEW.phase
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_phase_is_computed';
      END IF;
      IF NEW.observed_at <= OLD.observed_at THEN
        RAISE EXCEPTION 'a look is older than what was seen'
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_looks_in_order';
      END IF;
    ELSE
      -- 003 §4: from NONE to an operation and back, under a new id each; the id stays when it ends.
      IF OLD.operation <> NEW.operation AND OLD.operation <> 'NONE' AND NEW.operation <> 'NONE' THEN
        RAISE EXCEPTION '% is under way', OLD.operation
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_operation_is_not_preempted';
      END IF;
      IF (OLD.operation = 'NONE' AND NEW.operation <> 'NONE') = (OLD.op_id IS NOT DISTINCT FROM NEW.op_id) THEN
        RAISE EXCEPTION 'an operation has an id of its own, and keeps it'
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_operation_keeps_its_id';
      END IF;
      -- WS-12: an ARCHIVING that ends well has its own archive; no other way makes a home's volume dispensable.
      IF OLD.operation = 'ARCHIVING' AND NEW.operation = 'NONE' AND NEW.error_info IS NULL
         AND NEW.archive_key IS DISTINCT FROM OLD.workspace_id::text || '/' || OLD.op_id::text || '/home.tar.zst' THEN
        RAISE EXCEPTION 'archiving ended without its archive'
          USING ERRCODE = 'check_violation', CONSTRAINT = 'workspace_archiving_has_its_archive';
      END IF;
  END CASE;
  RETURN NEW;
END $$;
CREATE TRIGGER workspace_has_three_writers
  BEFORE INSERT OR UPDATE ON workspaces FOR EACH ROW EXECUTE FUNCTION check_workspace_change();

-- Workspaces that are cleaned; their events go first, week by week.
CREATE INDEX workspaces_cleaned ON workspaces (cleaned_at, workspace_id) WHERE cleaned_at IS NOT NULL;
CREATE TRIGGER workspaces_only_cleaned_go
  BEFORE DELETE ON workspaces FOR EACH ROW WHEN (OLD.cleaned_at IS NULL) EXECUTE FUNCTION refuse_deletion();
GRANT SELECT, DELETE ON workspaces TO dpp_chamberlain;

-- What happened to a workspace, written by the database itself: nothing can be forgotten, nothing changed. By ISO week of
-- UTC, which is why the key holds the time.
CREATE TABLE workspace_events (
  event_id     bigint GENERATED ALWAYS AS IDENTITY,
  workspace_id uuid NOT NULL REFERENCES workspaces (workspace_id),
  happened_at  timestamptz NOT NULL,
  actor        text NOT NULL CHECK (length(actor) BETWEEN 1 AND 128),
  kind         text NOT NULL CHECK (kind IN ('CREATED', 'RENAMED', 'DESIRED', 'PHASE', 'STARTED', 'COMPLETED', 'FAILED',
                 'RETRYING', 'RECOVERED', 'CLEANED')),
  from_value   text,
  to_value     text,
  reason       text,
  message      text CHECK (length(message) <= 500),
  PRIMARY KEY (event_id, happened_at)
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

-- A month of weeks ahead.
SELECT make_workspace_event_weeks(now(), 4);
CREATE TRIGGER workspace_events_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON workspace_events FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER workspace_events_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON workspace_events_default FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON workspace_events TO dpp_workspace_api, dpp_workspace_monitor, dpp_workspace_reconciler, dpp_chamberlain;
GRANT SELECT, DELETE ON workspace_events_default TO dpp_chamberlain;

-- As its owner: the writers can add an event by changing a workspace, and in no other way.
CREATE FUNCTION keep_workspace_event(who text, what text, of_workspace uuid, source text, target text, why text, told text)
RETURNS void LANGUAGE sql AS $$
  INSERT INTO workspace_events (workspace_id, happened_at, actor, kind, from_value, to_value, reason, message)
  VALUES (of_workspace, clock_timestamp(), who, what, source, target, why, left(told, 500))
$$;
CREATE FUNCTION keep_workspace_events() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    PERFORM keep_workspace_event(NEW.desired_by, 'CREATED', NEW.workspace_id, NULL, NEW.desired_state, NULL, NULL);
    RETURN NULL;
  END IF;
  IF OLD.name <> NEW.name THEN
    PERFORM keep_workspace_event(NEW.desired_by, 'RENAMED', NEW.workspace_id, OLD.name, NEW.name, NULL, NULL);
  END IF;
  IF OLD.desired_state <> NEW.desired_state THEN
    PERFORM keep_workspace_event(
      NEW.desired_by, 'DESIRED', NEW.workspace_id, OLD.desired_state, NEW.desired_state, NULL, NULL);
  END IF;
  IF OLD.phase <> NEW.phase THEN
    PERFORM keep_workspace_event('monitor', 'PHASE', NEW.workspace_id, OLD.phase, NEW.phase,
      NEW.conditions #>> '{policy.healthy,reason}', NEW.conditions #>> '{policy.healthy,message}');
  END IF;
  IF OLD.operation = 'NONE' AND NEW.operation <> 'NONE' THEN
    PERFORM keep_workspace_event(coalesce(nullif(current_setting('dpp.actor', true), ''), 'reconciler'), 'STARTED',
      NEW.workspace_id, NULL, NEW.operation, NULL, nullif(current_setting('dpp.reason', true), ''));
  ELSIF OLD.operation <> 'NONE' AND NEW.operation = 'NONE' AND NEW.error_info IS NULL THEN
    PERFORM keep_workspace_event('reconciler', 'COMPLETED', NEW.workspace_id, OLD.operation, NULL, NULL, NULL);
  END IF;
  IF NEW.error_info IS NOT NULL AND OLD.error_info IS DISTINCT FROM NEW.error_info THEN
    PERFORM keep_workspace_event('reconciler',
      CASE WHEN (NEW.error_info ->> 'is_terminal')::boolean THEN 'FAILED' ELSE 'RETRYING' END, NEW.workspace_id,
      OLD.operation, NULL, NEW.error_info ->> 'reason', NEW.error_info ->> 'message');
  ELSIF NEW.error_info IS NULL AND OLD.operation = 'NONE' AND NEW.operation = 'NONE'
    AND (OLD.error_info IS NOT NULL OR nullif(current_setting('dpp.actor', true), '') IS NOT NULL) THEN
    -- Said by who recovers it, for this transaction; an ERROR of its health alone has no error_info to be taken off.
    PERFORM keep_workspace_event(coalesce(nullif(current_setting('dpp.actor', true), ''), 'reconciler'), 'RECOVERED',
      NEW.workspace_id, NULL, NEW.archive_key,
      coalesce(OLD.error_info ->> 'reason', OLD.conditions #>> '{policy.healthy,reason}'),
      current_setting('dpp.reason', true));
  END IF;
  IF OLD.cleaned_at IS NULL AND NEW.cleaned_at IS NOT NULL THEN
    PERFORM keep_workspace_event('reconciler', 'CLEANED', NEW.workspace_id, NULL, NULL, NULL, NULL);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER workspace_events_are_kept
  AFTER INSERT OR UPDATE ON workspaces FOR EACH ROW EXECUTE FUNCTION keep_workspace_events();
