-- The role stays: it belongs to the whole cluster, and another database may use it.
DROP TABLE cleanup_classes, cleanups, lifecycle_deletions, lifecycle_objects, lifecycle_markers, lifecycle_sequences,
  lifecycle_heartbeats, lifecycle_awaiting, lifecycle_threads, lifecycle_messages, lifecycle_tasks, lifecycle_events,
  lifecycle_seen, lifecycle_sources;
DROP FUNCTION check_lifecycle_event_change, check_lifecycle_task_change, check_lifecycle_message_change;
DROP FUNCTION rows_of, bytes_of;
CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
