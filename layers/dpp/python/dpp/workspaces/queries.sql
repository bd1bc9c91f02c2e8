-- name: as_api
-- For this transaction, the API: it may write its columns and no other (WS-6).
SET LOCAL ROLE dpp_workspace_api

-- name: as_monitor
-- For this transaction, the monitor.
SET LOCAL ROLE dpp_workspace_monitor

-- name: as_reconciler
-- For this transaction, the reconciler.
SET LOCAL ROLE dpp_workspace_reconciler

-- name: clock
-- Postgres's clock, which decides (D1).
SELECT coalesce(%(now)s, clock_timestamp())

-- name: find
-- A workspace by its id.
SELECT * FROM workspaces WHERE workspace_id = %(workspace_id)s

-- name: find_many
-- Some by their ids.
SELECT * FROM workspaces WHERE workspace_id = ANY(%(workspace_ids)s)

-- name: lock_tenant
-- One creation a tenant at a time, so that its limit holds.
SELECT pg_advisory_xact_lock(hashtextextended('workspaces of ' || %(tenant_id)s, 0))

-- name: count_of_tenant
-- How many a tenant has, up to a bound.
SELECT count(*) FROM (
  SELECT FROM workspaces WHERE tenant_id = %(tenant_id)s AND deleted_at IS NULL LIMIT %(at_most)s) AS found

-- name: insert
-- A new one, under the API's role; zero rows: its tenant has used the key.
INSERT INTO workspaces (
  workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state, desired_by,
  standby_ttl_seconds, archive_ttl_seconds, last_access_at)
VALUES (
  %(workspace_id)s, %(tenant_id)s, coalesce(%(now)s, now()), %(request_key)s, %(request_hash)s, %(name)s,
  %(desired_state)s, %(desired_by)s, %(standby_ttl_seconds)s, %(archive_ttl_seconds)s, coalesce(%(now)s, now()))
ON CONFLICT (tenant_id, request_key) DO NOTHING
RETURNING *

-- name: find_by_key
-- What a tenant created under a key, and the hash of what it asked for.
SELECT * FROM workspaces WHERE tenant_id = %(tenant_id)s AND request_key = %(request_key)s

-- name: page_of_tenant
-- An owner's, the newest first; what is deleted is left out.
SELECT * FROM workspaces
WHERE tenant_id = %(tenant_id)s AND sequence < %(below)s AND deleted_at IS NULL
  AND (%(phase)s::text IS NULL OR phase = %(phase)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: page_of_all
-- Everybody's or a tenant's of which something may be left, the newest first, for an operator.
SELECT * FROM workspaces
WHERE sequence < %(below)s AND cleaned_at IS NULL
  AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s)
  AND (%(phase)s::text IS NULL OR phase = %(phase)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: events
-- What happened to it last, the newest first.
SELECT event_id, happened_at, actor, kind, from_value, to_value, reason, message FROM workspace_events
WHERE workspace_id = %(workspace_id)s ORDER BY event_id DESC LIMIT %(limit)s

-- name: change
-- What its owner asks for; a member that is null stays as it is, `sets_…` says that a null is meant. Asking is using.
UPDATE workspaces SET
  desired_state = coalesce(%(desired_state)s, desired_state),
  -- The event of another name says who gave it, too.
  desired_by = CASE WHEN %(desired_state)s::text IS NULL AND %(name)s::text IS NULL THEN desired_by
    ELSE %(desired_by)s END,
  name = coalesce(%(name)s, name),
  standby_ttl_seconds = CASE WHEN %(sets_standby_ttl)s THEN %(standby_ttl_seconds)s ELSE standby_ttl_seconds END,
  archive_ttl_seconds = CASE WHEN %(sets_archive_ttl)s THEN %(archive_ttl_seconds)s ELSE archive_ttl_seconds END,
  last_access_at = greatest(last_access_at, coalesce(%(now)s, now()))
WHERE workspace_id = %(workspace_id)s AND tenant_id = %(tenant_id)s AND deleted_at IS NULL
RETURNING *

-- name: wake
-- Somebody connects: it is used now, and is to run.
UPDATE workspaces SET
  last_access_at = greatest(last_access_at, coalesce(%(now)s, now())), desired_state = 'RUNNING',
  desired_by = CASE WHEN desired_state = 'RUNNING' THEN desired_by ELSE %(desired_by)s END
WHERE workspace_id = %(workspace_id)s AND tenant_id = %(tenant_id)s AND deleted_at IS NULL
RETURNING *

-- name: delete
-- From where it may be deleted (WS-8); zero rows: it stands elsewhere, or something is being done.
UPDATE workspaces SET
  desired_state = 'DELETED', desired_by = %(desired_by)s, deleted_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND tenant_id = %(tenant_id)s AND deleted_at IS NULL
  AND operation = 'NONE' AND phase = ANY(%(phases)s)
RETURNING *

-- name: lower_idle
-- One level lower where nobody has used it for its time (003 §3: the TTL manager goes through the API).
UPDATE workspaces SET
  desired_state = CASE desired_state WHEN 'RUNNING' THEN 'STANDBY' ELSE 'ARCHIVED' END, desired_by = %(desired_by)s
WHERE workspace_id IN (
    SELECT workspace_id FROM workspaces WHERE idle_at <= coalesce(%(now)s, now())
    ORDER BY idle_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING workspace_id

-- name: observe
-- What a look found, under the monitor's role. Zero rows: a later look has been, or what it was judged with is another.
UPDATE workspaces SET conditions = %(conditions)s, phase = %(phase)s, observed_at = %(observed_at)s
WHERE workspace_id = %(workspace_id)s
  AND (observed_at IS NULL OR observed_at < %(observed_at)s)
  AND archive_key IS NOT DISTINCT FROM %(archive_key)s
  AND error_info IS NOT DISTINCT FROM %(error_info)s
  AND deleted_at IS NOT DISTINCT FROM %(deleted_at)s
RETURNING *

-- name: refresh
-- Looked at and found as they were: only the time is new.
UPDATE workspaces SET observed_at = %(observed_at)s
WHERE workspace_id = ANY(%(workspace_ids)s) AND observed_at < %(observed_at)s

-- name: fleet_page
-- The fleet in pages, each workspace that something of may be left.
SELECT * FROM workspaces WHERE cleaned_at IS NULL AND sequence > %(above)s ORDER BY sequence LIMIT %(limit)s

-- name: begin
-- An operation, under the reconciler's role, where it was decided on what still holds (WS-7).
UPDATE workspaces SET
  operation = %(operation)s, op_id = %(op_id)s, op_started_at = coalesce(%(now)s, now()), error_info = NULL,
  error_count = 0, next_attempt_at = NULL, tried_at = NULL, home_ctx = home_ctx - 'last_action'
WHERE workspace_id = %(workspace_id)s AND operation = 'NONE' AND cleaned_at IS NULL
  AND desired_state = %(desired_state)s
  AND observed_at IS NOT DISTINCT FROM %(observed_at)s
  AND error_info IS NOT DISTINCT FROM %(error_info)s
RETURNING *

-- name: take_lease
-- The operation to one process, where it was decided on what still holds; zero rows: another has it, or it went on.
UPDATE workspaces SET
  lease_owner = %(owner)s, lease_until = coalesce(%(now)s, now()) + %(lease_seconds)s * interval '1 second',
  tried_at = coalesce(tried_at, %(now)s, now())
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation <> 'NONE'
  AND (lease_until IS NULL OR lease_until <= coalesce(%(now)s, now()))
  AND acted_at IS NOT DISTINCT FROM %(acted_at)s
  AND observed_at IS NOT DISTINCT FROM %(observed_at)s
RETURNING *

-- name: renew_lease
-- The lease of who still has it.
UPDATE workspaces SET lease_until = coalesce(%(now)s, now()) + %(lease_seconds)s * interval '1 second'
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND lease_owner = %(owner)s
RETURNING true

-- name: note_action
-- What was done, and that it is to be seen now; the lease is given back.
UPDATE workspaces SET
  acted_at = coalesce(%(now)s, now()), archive_key = %(archive_key)s, home_ctx = %(home_ctx)s, next_attempt_at = NULL,
  lease_owner = NULL, lease_until = NULL, handed_at = NULL
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND lease_owner = %(owner)s
RETURNING *

-- name: note_failure
-- The operation failed once more; the lease is given back.
UPDATE workspaces SET
  acted_at = coalesce(%(now)s, now()), home_ctx = %(home_ctx)s, error_info = %(error_info)s, next_attempt_at = NULL,
  tried_at = NULL, lease_owner = NULL, lease_until = NULL, handed_at = NULL
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation <> 'NONE'
  AND (lease_owner IS NOT DISTINCT FROM %(owner)s OR lease_until <= coalesce(%(now)s, now()))
  AND error_info IS NOT DISTINCT FROM %(error_before)s
RETURNING *

-- name: note_outage
-- The provider did not answer: it is asked again after a while, and nothing is held against the operation.
UPDATE workspaces SET
  acted_at = coalesce(%(now)s, now()), home_ctx = %(home_ctx)s, error_count = error_count + 1,
  tried_at = NULL,
  next_attempt_at = coalesce(%(now)s, now()) + %(backoff_seconds)s * interval '1 second',
  lease_owner = NULL, lease_until = NULL, handed_at = NULL
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND lease_owner = %(owner)s
RETURNING *

-- name: complete
-- The operation was seen to be complete.
UPDATE workspaces SET
  operation = 'NONE', op_started_at = NULL, acted_at = NULL, home_ctx = %(home_ctx)s, error_info = NULL,
  error_count = 0, start_count = %(start_count)s, next_attempt_at = NULL, tried_at = NULL,
  lease_owner = NULL, lease_until = NULL, handed_at = NULL,
  settled_at = coalesce(%(now)s, now()),
  cleaned_at = CASE WHEN operation = 'DELETING' THEN coalesce(%(now)s, now()) END
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation = %(operation)s
  AND (lease_until IS NULL OR lease_until <= coalesce(%(now)s, now()))
  AND observed_at IS NOT DISTINCT FROM %(observed_at)s
  AND acted_at IS NOT DISTINCT FROM %(acted_at)s
RETURNING *

-- name: give_up
-- For good: the operation is reset, its id kept, the error set, in one statement (003 §4; WS-7).
UPDATE workspaces SET
  operation = 'NONE', op_started_at = NULL, acted_at = NULL, error_info = %(error_info)s, next_attempt_at = NULL,
  tried_at = NULL,
  lease_owner = NULL, lease_until = NULL, handed_at = NULL, settled_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND op_id IS NOT DISTINCT FROM %(op_id)s AND operation = %(operation)s
  AND (lease_until IS NULL OR lease_until <= coalesce(%(now)s, now()) OR lease_owner = %(owner)s)
  AND observed_at IS NOT DISTINCT FROM %(observed_at)s
  AND acted_at IS NOT DISTINCT FROM %(acted_at)s
RETURNING *

-- name: hand_over
-- That long work was handed to who has the time; zero rows: it was, just now, or it is being done.
UPDATE workspaces SET handed_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation <> 'NONE'
  AND (handed_at IS NULL OR handed_at <= coalesce(%(now)s, now()) - %(again_after_seconds)s * interval '1 second')
  AND (lease_until IS NULL OR lease_until <= coalesce(%(now)s, now()))
RETURNING true

-- name: plan_look
-- The one next look of a workspace; zero rows: a sooner one is under way already.
UPDATE workspaces SET next_look_at = coalesce(%(now)s, now()) + %(seconds)s * interval '1 second'
WHERE workspace_id = %(workspace_id)s AND cleaned_at IS NULL
  AND (next_look_at IS NULL OR next_look_at <= coalesce(%(now)s, now())
       OR next_look_at > coalesce(%(now)s, now()) + (%(seconds)s + 1) * interval '1 second')
RETURNING true

-- name: claim_unsettled
-- What is not as it is wanted and whose look is lost or was never sent, each to one beat (D10).
UPDATE workspaces SET next_look_at = coalesce(%(now)s, now())
WHERE workspace_id IN (
    SELECT workspace_id FROM workspaces
    WHERE cleaned_at IS NULL
      AND (operation <> 'NONE' OR phase <> 'ERROR' AND desired_state <> phase OR deleted_at IS NOT NULL)
      AND coalesce(next_look_at, '-infinity')
          <= coalesce(%(now)s, now()) - %(lost_after_seconds)s * interval '1 second'
    ORDER BY coalesce(next_look_at, '-infinity'), sequence LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING workspace_id

-- name: unsettled
-- How many are not as they are wanted, counted up to a bound; and how long the oldest operation has been going on.
SELECT count(*), coalesce(max(extract(epoch FROM coalesce(%(now)s, now()) - op_started_at)), 0)::float8 FROM (
  SELECT op_started_at FROM workspaces
  WHERE cleaned_at IS NULL
    AND (operation <> 'NONE' OR phase <> 'ERROR' AND desired_state <> phase OR deleted_at IS NOT NULL)
  ORDER BY coalesce(next_look_at, '-infinity'), sequence LIMIT %(at_most)s) AS found

-- name: in_error
-- How many wait for a person, counted up to a bound; and how many lost their home, or are about to be seen to.
SELECT count(*), count(*) FILTER (WHERE error_info ->> 'reason' = 'DataLost'
  OR conditions #>> '{policy.healthy,reason}' = 'ContainerWithoutVolume')
FROM (SELECT error_info, conditions FROM workspaces WHERE phase = 'ERROR' LIMIT %(at_most)s) AS found

-- name: by_phase
-- How many of the fleet stand in each phase, of so many that were made first.
SELECT phase, count(*) FROM (
  SELECT phase FROM workspaces WHERE cleaned_at IS NULL ORDER BY sequence LIMIT %(at_most)s) AS found
GROUP BY phase ORDER BY phase

-- name: recover
-- A person says that it may go on, from which archive, or from none.
UPDATE workspaces SET
  error_info = NULL, error_count = 0, start_count = 0, archive_key = %(archive_key)s, home_ctx = %(home_ctx)s,
  settled_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND operation = 'NONE' AND phase = 'ERROR' AND deleted_at IS NULL
  AND error_info IS NOT DISTINCT FROM %(error_info)s
  AND archive_key IS NOT DISTINCT FROM %(archive_key_before)s
RETURNING *

-- name: say_who
-- Who does this, and why, for the event that the database writes.
SELECT set_config('dpp.actor', %(actor)s, true), set_config('dpp.reason', %(reason)s, true)
