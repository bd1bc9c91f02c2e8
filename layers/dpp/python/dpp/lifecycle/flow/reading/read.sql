-- name: page_events
-- Events below a sequence, the newest first.
SELECT * FROM lifecycle_events
WHERE sequence < %(below)s AND (%(status)s::text IS NULL OR status = %(status)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: page_tasks
-- Tasks below a sequence, the newest first.
SELECT * FROM lifecycle_tasks
WHERE sequence < %(below)s AND (%(status)s::text IS NULL OR status = %(status)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: event
-- An event by its id.
SELECT * FROM lifecycle_events WHERE event_id = %(event_id)s

-- name: seen_at
-- When an event arrived, as long as its id is kept (LIFE-6).
SELECT seen_at FROM lifecycle_seen WHERE event_id = %(event_id)s

-- name: tasks_of_events
-- The tasks of events.
SELECT * FROM lifecycle_tasks WHERE event_id = ANY (%(event_ids)s)

-- name: task
-- A task by its id, with its thread.
SELECT t.*, h.channel, h.thread_ts, h.created_at AS thread_at
FROM lifecycle_tasks t LEFT JOIN lifecycle_threads h USING (task_id) WHERE t.task_id = %(task_id)s

-- name: questions
-- Tasks that wait for a person with their questions, the longest waiting first. The message may be deleted, since it is
-- kept no longer than any sent message.
SELECT t.*, coalesce(m.message_id, a.message_id) AS message_id, m.body AS question,
  coalesce(m.created_at, a.created_at, t.started_at) AS asked_at, coalesce(a.created_at, m.sent_at) AS told_at
FROM lifecycle_tasks t
LEFT JOIN lifecycle_messages m ON m.dedup_key = t.task_id || '/ask-' || t.attempt
LEFT JOIN lifecycle_awaiting a ON a.task_id = t.task_id
WHERE t.status = 'IN_PROGRESS' AND t.waits_for_person
  AND (%(task_ids)s::text[] IS NULL OR t.task_id = ANY (%(task_ids)s))
ORDER BY asked_at, t.sequence LIMIT %(limit)s

-- name: messages_of_task
-- A task's messages in their order, each with the unsent one that precedes it.
SELECT m.*, behind.message_id AS behind
FROM lifecycle_messages m LEFT JOIN LATERAL (
  SELECT earlier.message_id FROM lifecycle_messages earlier
  WHERE m.status = 'PENDING' AND earlier.task_id = m.task_id AND earlier.status = 'PENDING'
    AND earlier.sequence < m.sequence
  ORDER BY earlier.sequence LIMIT 1) AS behind ON true
WHERE m.task_id = %(task_id)s ORDER BY m.sequence

-- name: unsent
-- Unsent messages, the oldest first, each with the unsent one of its task that precedes it.
SELECT m.*, behind.message_id AS behind
FROM lifecycle_messages m LEFT JOIN LATERAL (
  SELECT earlier.message_id FROM lifecycle_messages earlier
  WHERE earlier.task_id = m.task_id AND earlier.status = 'PENDING' AND earlier.sequence < m.sequence
  ORDER BY earlier.sequence LIMIT 1) AS behind ON true
WHERE m.status = 'PENDING' ORDER BY m.sequence LIMIT %(limit)s

-- name: sent
-- Sent messages, the newest first.
SELECT *, NULL AS behind FROM lifecycle_messages WHERE status = 'SENT' ORDER BY sequence DESC LIMIT %(limit)s

-- name: objects_of_task
-- A task's objects, by key.
SELECT object_key, kind, bytes, created_at FROM lifecycle_objects WHERE task_id = %(task_id)s ORDER BY object_key

-- name: object_stands
-- Whether an object has a row.
SELECT 1 FROM lifecycle_objects WHERE object_key = %(object_key)s
