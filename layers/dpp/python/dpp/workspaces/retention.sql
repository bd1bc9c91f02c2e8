-- name: prepare_workspace_events
-- Creates the partitions of this week and the coming ones.
SELECT make_workspace_event_weeks(coalesce(%(now)s, now()), %(weeks)s)

-- name: due_workspace_events
-- Counts events of weeks that are due as a whole, and due events of the default partition, up to a bound.
SELECT due_workspace_events(%(before)s, %(limit)s)

-- name: drop_workspace_events
-- Drops the oldest week that is due as a whole.
SELECT part, ended_at, rows, bytes FROM drop_workspace_event_week(%(before)s)

-- name: use_of_workspace_events
-- The period of a week starts at its end, that of an event in the default partition at its own time. A day is a seventh of
-- the last whole week. No row of a week is ever deleted alone, so that a week without pages has no rows.
WITH over AS (
  SELECT part, ends_at FROM workspace_event_weeks()
  WHERE ends_at <= coalesce(%(now)s, now()) AND pg_relation_size(part) > 0
), last_week AS (
  SELECT part FROM workspace_event_weeks()
  WHERE coalesce(%(now)s, now()) >= ends_at AND coalesce(%(now)s, now()) < ends_at + interval '168 hours'
)
SELECT rows_of('workspace_events') AS rows, bytes_of('workspace_events') AS bytes,
       least((SELECT min(ends_at) FROM over), (SELECT min(happened_at) FROM workspace_events_default)) AS oldest_at,
       coalesce((SELECT rows_of(part) FROM last_week), 0) / 7.0 AS rows_a_day,
       coalesce((SELECT bytes_of(part) FROM last_week), 0) / 7.0 AS bytes_a_day
