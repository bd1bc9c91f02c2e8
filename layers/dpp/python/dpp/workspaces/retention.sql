-- name: prepare_workspace_events
-- This week's partition and the coming ones.
SELECT make_workspace_event_weeks(coalesce(%(now)s, now()), %(weeks)s)

-- name: due_workspace_events
-- Events of weeks that are wholly old enough, and single ones of no week, counted up to a bound.
SELECT due_workspace_events(%(before)s, %(limit)s)

-- name: drop_workspace_events
-- The oldest such week, whole.
SELECT part, ended_at, rows, bytes FROM drop_workspace_event_week(%(before)s)

-- name: delete_workspace_events
-- The oldest of those that have no week of their own.
WITH due AS (
  SELECT event_id, happened_at FROM workspace_events_default
  WHERE happened_at < %(before)s
    AND (happened_at, event_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s::bigint, 0))
  ORDER BY happened_at, event_id LIMIT %(limit)s
), gone AS (
  DELETE FROM workspace_events_default w
  WHERE w.event_id = ANY (ARRAY(SELECT event_id FROM due)) AND w.happened_at < %(before)s
  RETURNING pg_column_size(w.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT happened_at FROM due ORDER BY happened_at DESC, event_id DESC LIMIT 1) AS last_time,
       (SELECT event_id::text FROM due ORDER BY happened_at DESC, event_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_workspace_events
-- The period of a week runs from its end, that of an event without one from itself. A day is a seventh of the last whole
-- week. No row of a week is ever deleted alone, so one that has no pages has no rows.
WITH over AS (
  SELECT part, ends_at FROM workspace_event_weeks()
  WHERE ends_at <= coalesce(%(now)s, now()) AND pg_relation_size(part) > 0
), lately AS (
  SELECT part FROM workspace_event_weeks()
  WHERE coalesce(%(now)s, now()) >= ends_at AND coalesce(%(now)s, now()) < ends_at + interval '168 hours'
)
SELECT rows_of('workspace_events') AS rows, bytes_of('workspace_events') AS bytes,
       least((SELECT min(ends_at) FROM over), (SELECT min(happened_at) FROM workspace_events_default)) AS oldest_at,
       coalesce((SELECT rows_of(part) FROM lately), 0) / 7.0 AS rows_a_day,
       coalesce((SELECT bytes_of(part) FROM lately), 0) / 7.0 AS bytes_a_day

-- name: due_workspaces
-- Workspaces of which everything was cleaned away a certain time ago, counted up to a bound.
SELECT count(*) FROM (
  SELECT FROM workspaces WHERE cleaned_at < %(before)s ORDER BY cleaned_at LIMIT %(limit)s) AS due

-- name: delete_workspaces
-- The oldest of them, where nothing is left that tells of one.
WITH due AS (
  SELECT w.workspace_id, w.cleaned_at,
         EXISTS (SELECT FROM workspace_events e WHERE e.workspace_id = w.workspace_id OFFSET 0) AS is_needed
  FROM workspaces w
  WHERE w.cleaned_at < %(before)s
    AND (w.cleaned_at, w.workspace_id) > (coalesce(%(after_time)s::timestamptz, '-infinity'),
      coalesce(%(after_id)s::uuid, '00000000-0000-0000-0000-000000000000'))
  ORDER BY w.cleaned_at, w.workspace_id LIMIT %(limit)s
), gone AS (
  DELETE FROM workspaces w USING due WHERE w.workspace_id = due.workspace_id AND NOT due.is_needed
  RETURNING pg_column_size(w.*) AS bytes
)
SELECT (SELECT count(*) FROM due) AS examined, count(*) AS deleted, coalesce(sum(bytes), 0) AS bytes,
       (SELECT cleaned_at FROM due ORDER BY cleaned_at DESC, workspace_id DESC LIMIT 1) AS last_time,
       (SELECT workspace_id::text FROM due ORDER BY cleaned_at DESC, workspace_id DESC LIMIT 1) AS last_id
FROM gone

-- name: use_of_workspaces
-- The table whole; the period of a workspace runs from when it was cleaned away. The oldest that may go is looked for
-- among the first thousand.
SELECT whole.rows, whole.bytes,
       (SELECT min(cleaned_at) FROM (
          SELECT workspace_id, cleaned_at FROM workspaces WHERE cleaned_at IS NOT NULL
          ORDER BY cleaned_at, workspace_id LIMIT 1000) AS first
        WHERE NOT EXISTS (
          SELECT FROM workspace_events e WHERE e.workspace_id = first.workspace_id OFFSET 0)) AS oldest_at,
       lately.rows AS rows_a_day, lately.rows * (whole.bytes / greatest(whole.rows, 1)::float8) AS bytes_a_day
FROM (SELECT rows_of('workspaces') AS rows, bytes_of('workspaces') AS bytes) AS whole,
  (SELECT count(*) AS rows FROM (
    SELECT FROM workspaces WHERE cleaned_at > coalesce(%(now)s, now()) - interval '1 day'
      AND cleaned_at <= coalesce(%(now)s, now()) ORDER BY cleaned_at LIMIT 1000000) AS bounded) AS lately
