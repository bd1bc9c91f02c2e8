-- The life of data (002; LIFE-1 … LIFE-13): events, tasks, messages and what belongs to them, what was seen, and the
-- chamberlain, who throws away what has served: his runs, the list of objects that he has yet to delete, his role.
-- Every CHECK over nullable columns ends in IS TRUE, since a NULL check counts as passed.

-- How many rows a table has: the planner's estimate of a large one, a count of a small one.
CREATE FUNCTION rows_of(counted regclass) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
  estimate bigint;
BEGIN
  SELECT coalesce(sum(reltuples), 0) INTO estimate FROM pg_class
  WHERE reltuples > 0 AND oid IN (SELECT relid FROM pg_partition_tree(counted) UNION SELECT counted);
  IF estimate < 100000 THEN
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT 100000) AS bounded', counted) INTO estimate;
  END IF;
  RETURN estimate;
END $$;

-- How many bytes a table has, with its indexes and partitions.
CREATE FUNCTION bytes_of(measured regclass) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT coalesce(sum(pg_total_relation_size(relid)), 0)::bigint
  FROM (SELECT relid FROM pg_partition_tree(measured) UNION SELECT measured) AS parts (relid)
$$;

-- What the sentinel knows of a source; overwritten, never collected (LIFE-7, LIFE-11).
CREATE TABLE lifecycle_sources (
  source         text PRIMARY KEY CHECK (source IN ('GITHUB', 'JIRA')),
  etag           text CHECK (length(etag) BETWEEN 1 AND 500),
  -- Everything of the source that is older was taken in; the next poll asks from here on.
  complete_until timestamptz,
  polled_at      timestamptz NOT NULL,
  next_poll_at   timestamptz NOT NULL,
  failures       integer NOT NULL CHECK (failures >= 0), -- in a row
  last_error     text CHECK (length(last_error) BETWEEN 1 AND 500)
);

-- The ids of events that were taken in, for as long as one may come again (LIFE-6).
CREATE TABLE lifecycle_seen (
  event_id text PRIMARY KEY CHECK (event_id ~ '^[!-~]+$' AND length(event_id) <= 300),
  seen_at  timestamptz NOT NULL
);
CREATE INDEX lifecycle_seen_by_age ON lifecycle_seen (seen_at, event_id);

-- LIFE-1. FAILED is COMPLETED for retention.
CREATE TABLE lifecycle_events (
  event_id      text PRIMARY KEY REFERENCES lifecycle_seen (event_id),
  sequence      bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  source        text NOT NULL CHECK (source IN ('GITHUB', 'JIRA')),
  kind          text NOT NULL CHECK (kind IN ('MENTIONED', 'ASSIGNED', 'REVIEW_REQUESTED', 'UPDATED')),
  arrived_by    text NOT NULL CHECK (arrived_by IN ('POLL', 'WEBHOOK')),
  -- What it is about, bounded: title, url, body, actor (dpp/lifecycle/flow/model.py, Subject).
  payload       jsonb NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
  happened_at   timestamptz NOT NULL, -- by the source's clock
  status        text NOT NULL CHECK (status IN ('PENDING', 'DISPATCHED', 'COMPLETED', 'FAILED')),
  reason        text CHECK (length(reason) BETWEEN 1 AND 500),
  created_at    timestamptz NOT NULL,
  dispatched_at timestamptz,
  ended_at      timestamptz,
  CONSTRAINT lifecycle_events_shape CHECK ((CASE status
    WHEN 'PENDING' THEN num_nonnulls(dispatched_at, ended_at) = 0
    WHEN 'DISPATCHED' THEN dispatched_at IS NOT NULL AND ended_at IS NULL
    ELSE num_nonnulls(dispatched_at, ended_at) = 2 END) IS TRUE)
);
CREATE INDEX lifecycle_events_pending ON lifecycle_events (sequence) WHERE status = 'PENDING';
CREATE INDEX lifecycle_events_dispatched ON lifecycle_events (sequence) WHERE status = 'DISPATCHED';
CREATE INDEX lifecycle_events_ended ON lifecycle_events (ended_at, event_id) WHERE ended_at IS NOT NULL;

-- LIFE-2. It holds what it needs of its event, which may be gone before it is.
CREATE TABLE lifecycle_tasks (
  task_id      text PRIMARY KEY CHECK (task_id ~ '^task-[0-9]{8}-[0-9]{3,9}$'),
  sequence     bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  event_id     text NOT NULL CONSTRAINT lifecycle_tasks_one_an_event UNIQUE,
  kind         text NOT NULL CHECK (kind IN ('MENTIONED', 'ASSIGNED', 'REVIEW_REQUESTED', 'UPDATED')),
  subject      jsonb NOT NULL CHECK (jsonb_typeof(subject) = 'object'),
  status       text NOT NULL CHECK (status IN ('PENDING', 'IN_PROGRESS', 'COMPLETED')),
  outcome      text CHECK (outcome IN ('SUCCEEDED', 'FAILED')),
  -- One soldier at a time; a further one after a failure, or with what a person answered.
  attempt      smallint NOT NULL CHECK (attempt >= 0),
  run_id       uuid,
  waits_for_person boolean NOT NULL DEFAULT false,
  answer       text CHECK (length(answer) BETWEEN 1 AND 4000),
  last_failure text CHECK (length(last_failure) BETWEEN 1 AND 500),
  next_look_at timestamptz NOT NULL,
  created_at   timestamptz NOT NULL,
  started_at   timestamptz,
  ended_at     timestamptz,
  CONSTRAINT lifecycle_tasks_shape CHECK ((CASE status
    WHEN 'PENDING' THEN num_nonnulls(started_at, ended_at, outcome, run_id) = 0 AND attempt = 0 AND NOT waits_for_person
    WHEN 'IN_PROGRESS' THEN started_at IS NOT NULL AND num_nonnulls(ended_at, outcome) = 0 AND attempt > 0
    ELSE num_nonnulls(started_at, ended_at, outcome) = 3 AND NOT waits_for_person END) IS TRUE)
);
CREATE INDEX lifecycle_tasks_pending ON lifecycle_tasks (sequence) WHERE status = 'PENDING';
CREATE INDEX lifecycle_tasks_in_progress ON lifecycle_tasks (next_look_at, sequence)
  WHERE status = 'IN_PROGRESS' AND NOT waits_for_person;
CREATE INDEX lifecycle_tasks_ended ON lifecycle_tasks (ended_at, task_id) WHERE ended_at IS NOT NULL;

-- LIFE-5.
CREATE TABLE lifecycle_messages (
  message_id      text PRIMARY KEY CHECK (message_id ~ '^msg-[0-9]{8}-[0-9]{3,9}$'),
  sequence        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  kind            text NOT NULL CHECK (kind IN ('THREAD_START', 'HUMAN_INPUT_REQUEST', 'TASK_RESULT', 'REPORT')),
  task_id         text, -- a REPORT has none
  -- What makes it one of its kind: the attempt of its task, the day of a report. Said twice, it is one message.
  dedup_key       text NOT NULL CONSTRAINT lifecycle_messages_said_once UNIQUE CHECK (length(dedup_key) BETWEEN 1 AND 200),
  body            text NOT NULL CHECK (length(body) BETWEEN 1 AND 4000),
  status          text NOT NULL CHECK (status IN ('PENDING', 'SENT')),
  attempts        integer NOT NULL CHECK (attempts >= 0),
  -- Until then it is nobody's to send: it waits for its turn after a failure, or somebody is sending it.
  next_attempt_at timestamptz NOT NULL,
  last_error      text CHECK (length(last_error) BETWEEN 1 AND 500),
  created_at      timestamptz NOT NULL,
  sent_at         timestamptz,
  CONSTRAINT lifecycle_messages_of_a_task CHECK ((kind = 'REPORT') = (task_id IS NULL)),
  CONSTRAINT lifecycle_messages_shape CHECK ((status = 'SENT') = (sent_at IS NOT NULL))
);
CREATE INDEX lifecycle_messages_pending ON lifecycle_messages (sequence) WHERE status = 'PENDING';
CREATE INDEX lifecycle_messages_unsent_of_task ON lifecycle_messages (task_id, sequence) WHERE status = 'PENDING';
CREATE INDEX lifecycle_messages_sent ON lifecycle_messages (sent_at, message_id) WHERE sent_at IS NOT NULL;

-- LIFE-10: the envoy's own. A mapping goes when its task's last message is sent, what is awaited when it is answered.
CREATE TABLE lifecycle_threads (
  task_id    text PRIMARY KEY REFERENCES lifecycle_tasks (task_id),
  channel    text NOT NULL CHECK (length(channel) BETWEEN 1 AND 100),
  thread_ts  text NOT NULL CHECK (length(thread_ts) BETWEEN 1 AND 100),
  created_at timestamptz NOT NULL,
  CONSTRAINT lifecycle_threads_of_one_task UNIQUE (channel, thread_ts)
);
CREATE TABLE lifecycle_awaiting (
  task_id    text PRIMARY KEY REFERENCES lifecycle_tasks (task_id),
  message_id text NOT NULL,
  created_at timestamptz NOT NULL
);

-- LIFE-11: overwritten, never collected.
CREATE TABLE lifecycle_heartbeats (
  role    text PRIMARY KEY CHECK (role IN ('SENTINEL', 'KING', 'GENERAL', 'ENVOY', 'CHAMBERLAIN')),
  beat_at timestamptz NOT NULL
);
CREATE TABLE lifecycle_sequences (
  name  text PRIMARY KEY CHECK (name IN ('task', 'msg')),
  day   date NOT NULL,
  value integer NOT NULL CHECK (value > 0)
);
CREATE TABLE lifecycle_markers (
  name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 64),
  day  date NOT NULL
);

-- Every object that a task left, from before it is written on, so that none is without a row (LIFE-3, LIFE-4).
CREATE TABLE lifecycle_objects (
  object_key text PRIMARY KEY CHECK (length(object_key) BETWEEN 1 AND 300),
  kind       text NOT NULL CHECK (kind IN ('RESULT', 'PROMPT', 'SESSION_LOG')),
  task_id    text NOT NULL,
  bytes      bigint NOT NULL CHECK (bytes >= 0),
  created_at timestamptz NOT NULL
);
CREATE INDEX lifecycle_objects_by_age ON lifecycle_objects (kind, created_at, object_key) INCLUDE (bytes, task_id);
CREATE INDEX lifecycle_objects_by_task ON lifecycle_objects (task_id);
-- Objects whose rows are gone: written with the deletion of the row, taken off when S3 has deleted the object.
CREATE TABLE lifecycle_deletions (
  object_key      text PRIMARY KEY,
  listed_at       timestamptz NOT NULL,
  attempts        integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  next_attempt_at timestamptz NOT NULL,
  last_error      text CHECK (length(last_error) BETWEEN 1 AND 500)
);
CREATE INDEX lifecycle_deletions_due ON lifecycle_deletions (next_attempt_at, object_key);

-- LIFE-8: what the chamberlain did, class by class; one daily run a day of his zone.
CREATE TABLE cleanups (
  cleanup_id   uuid PRIMARY KEY,
  sequence     bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
  kind         text NOT NULL CHECK (kind IN ('DAILY', 'MANUAL')),
  day          date NOT NULL,
  requested_by text NOT NULL CHECK (length(requested_by) BETWEEN 1 AND 128),
  over_breaker boolean NOT NULL,
  status       text NOT NULL CHECK (status IN ('RUNNING', 'DONE')),
  started_at   timestamptz NOT NULL,
  ended_at     timestamptz,
  usage        jsonb CHECK (jsonb_typeof(usage) = 'array'), -- LIFE-13, as it was at the end
  warnings     jsonb CHECK (jsonb_typeof(warnings) = 'array'),
  CONSTRAINT cleanups_end CHECK (((status = 'DONE') = (num_nonnulls(ended_at, usage, warnings) = 3)) IS TRUE)
);
CREATE UNIQUE INDEX cleanups_one_a_day ON cleanups (day) WHERE kind = 'DAILY';
CREATE UNIQUE INDEX cleanups_one_at_a_time ON cleanups (status) WHERE status = 'RUNNING';
CREATE INDEX cleanups_ended ON cleanups (ended_at, cleanup_id) WHERE ended_at IS NOT NULL;
CREATE TABLE cleanup_classes (
  cleanup_id     uuid NOT NULL REFERENCES cleanups (cleanup_id) ON DELETE CASCADE,
  class          text NOT NULL CHECK (length(class) BETWEEN 1 AND 64),
  position       smallint NOT NULL,
  status         text NOT NULL CHECK (status IN ('WAITING', 'RUNNING', 'DONE', 'CAPPED', 'TRIPPED', 'FAILED',
                   'STOPPED')),
  -- What is older goes. Where the run stands: the time and the id of the last row that it looked at.
  before         timestamptz NOT NULL,
  cursor_time    timestamptz,
  cursor_id      text,
  due            bigint CHECK (due >= 0), -- as counted for the breaker, which counts no further than it needs to
  allowed        bigint CHECK (allowed >= 0),
  examined       bigint NOT NULL DEFAULT 0 CHECK (examined >= 0),
  deleted        bigint NOT NULL DEFAULT 0 CHECK (deleted >= 0),
  bytes          bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
  errors         integer NOT NULL DEFAULT 0 CHECK (errors >= 0),
  last_error     text CHECK (length(last_error) BETWEEN 1 AND 500),
  oldest_left_at timestamptz,
  PRIMARY KEY (cleanup_id, class),
  CONSTRAINT cleanup_classes_deleted_was_examined CHECK (deleted <= examined)
);
CREATE INDEX cleanup_classes_history ON cleanup_classes (class, cleanup_id);

-- The machines of dpp/lifecycle/flow/machine.py, and what an event and a task are about, which never changes.
CREATE TRIGGER lifecycle_events_follow_the_machine
  BEFORE INSERT OR UPDATE ON lifecycle_events FOR EACH ROW EXECUTE FUNCTION follow_machine('status',
    '{"status": "PENDING"}',
    '{"PENDING": ["DISPATCHED"], "DISPATCHED": ["COMPLETED", "FAILED"]}',
    'event_id sequence source kind arrived_by payload happened_at created_at');

CREATE TRIGGER lifecycle_tasks_follow_the_machine
  BEFORE INSERT OR UPDATE ON lifecycle_tasks FOR EACH ROW EXECUTE FUNCTION follow_machine('status',
    '{"status": "PENDING"}',
    '{"PENDING": ["PENDING", "IN_PROGRESS"], "IN_PROGRESS": ["IN_PROGRESS", "COMPLETED"]}',
    'task_id sequence event_id kind subject created_at');

CREATE TRIGGER lifecycle_messages_follow_the_machine
  BEFORE INSERT OR UPDATE ON lifecycle_messages FOR EACH ROW EXECUTE FUNCTION follow_machine('status',
    '{"status": "PENDING"}',
    '{"PENDING": ["PENDING", "SENT"]}',
    'message_id kind task_id dedup_key body created_at');

GRANT SELECT, DELETE ON lifecycle_seen, lifecycle_events, lifecycle_tasks, lifecycle_messages, lifecycle_objects, cleanups
  TO dpp_chamberlain;
GRANT SELECT ON lifecycle_threads, lifecycle_awaiting, cleanup_classes TO dpp_chamberlain;
GRANT SELECT, INSERT ON lifecycle_deletions TO dpp_chamberlain;
