-- The objects that the rows named stay.
DROP TABLE cleanup_classes, cleanups, lifecycle_deletions, lifecycle_objects, lifecycle_markers, lifecycle_sequences,
  lifecycle_heartbeats, lifecycle_awaiting, lifecycle_threads, lifecycle_messages, lifecycle_tasks, lifecycle_events,
  lifecycle_seen, lifecycle_sources;
DROP FUNCTION rows_of, bytes_of;
