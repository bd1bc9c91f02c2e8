-- name: as_api
-- Assumes the role of the API for this transaction: it may write its own columns only (WS-6).
SET LOCAL ROLE dpp_workspace_api

-- name: as_monitor
-- Assumes the role of the monitor for this transaction.
SET LOCAL ROLE dpp_workspace_monitor

-- name: as_reconciler
-- Assumes the role of the reconciler for this transaction.
SET LOCAL ROLE dpp_workspace_reconciler

-- name: find
-- A workspace by its id.
SELECT * FROM workspaces WHERE workspace_id = %(workspace_id)s

-- name: find_many
-- Workspaces by their ids.
SELECT * FROM workspaces WHERE workspace_id = ANY(%(workspace_ids)s)

-- name: lock_tenant
-- Serializes creations of a tenant, so that its limit holds.
SELECT pg_advisory_xact_lock(hashtextextended('workspaces of ' || %(tenant_id)s, 0))

-- name: count_of_tenant
-- Counts a tenant's workspaces, up to a bound.
SELECT count(*) FROM (
  SELECT FROM workspaces WHERE tenant_id = %(tenant_id)s AND deleted_at IS NULL LIMIT %(at_most)s) AS found

-- name: insert
-- Inserts a workspace, with the role of the API; zero rows: the tenant has used the key before.
INSERT INTO workspaces (
  workspace_id, tenant_id, created_at, request_key, request_hash, name, desired_state, desired_by,
  standby_ttl_seconds, archive_ttl_seconds, last_access_at)
VALUES (
  %(workspace_id)s, %(tenant_id)s, coalesce(%(now)s, now()), %(request_key)s, %(request_hash)s, %(name)s,
  %(desired_state)s, %(desired_by)s, %(standby_ttl_seconds)s, %(archive_ttl_seconds)s, coalesce(%(now)s, now()))
ON CONFLICT (tenant_id, request_key) DO NOTHING
RETURNING *

-- name: find_by_key
-- The workspace that a tenant created under a key, with the hash of that request.
SELECT * FROM workspaces WHERE tenant_id = %(tenant_id)s AND request_key = %(request_key)s

-- name: page_of_tenant
-- A page of a tenant's workspaces, newest first, without deleted ones.
SELECT * FROM workspaces
WHERE tenant_id = %(tenant_id)s AND sequence < %(below)s AND deleted_at IS NULL
  AND (%(phase)s::text IS NULL OR phase = %(phase)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: page_of_all
-- A page of all workspaces, or a tenant's, that are not cleaned up, newest first; for operators.
SELECT * FROM workspaces
WHERE sequence < %(below)s AND cleaned_at IS NULL
  AND (%(tenant_id)s::text IS NULL OR tenant_id = %(tenant_id)s)
  AND (%(phase)s::text IS NULL OR phase = %(phase)s)
ORDER BY sequence DESC LIMIT %(limit)s

-- name: events
-- The latest events of a workspace, newest first.
SELECT event_id, happened_at, actor, kind, from_value, to_value, reason, message FROM workspace_events
WHERE workspace_id = %(workspace_id)s ORDER BY event_id DESC LIMIT %(limit)s

-- name: change
-- Applies a change by the owner, which counts as use. A null member stays as it is, unless its `sets_…` is true.
UPDATE workspaces SET
  desired_state = coalesce(%(desired_state)s, desired_state),
  -- The event of a renaming records who did it.
  desired_by = CASE WHEN %(desired_state)s::text IS NULL AND %(name)s::text IS NULL THEN desired_by
    ELSE %(desired_by)s END,
  name = coalesce(%(name)s, name),
  standby_ttl_seconds = CASE WHEN %(sets_standby_ttl)s THEN %(standby_ttl_seconds)s ELSE standby_ttl_seconds END,
  archive_ttl_seconds = CASE WHEN %(sets_archive_ttl)s THEN %(archive_ttl_seconds)s ELSE archive_ttl_seconds END,
  last_access_at = greatest(last_access_at, coalesce(%(now)s, now()))
WHERE workspace_id = %(workspace_id)s AND tenant_id = %(tenant_id)s AND deleted_at IS NULL
RETURNING *

-- name: wake
-- Records a use, and sets the desired state to RUNNING.
UPDATE workspaces SET
  last_access_at = greatest(last_access_at, coalesce(%(now)s, now())), desired_state = 'RUNNING',
  desired_by = CASE WHEN desired_state = 'RUNNING' THEN desired_by ELSE %(desired_by)s END
WHERE workspace_id = %(workspace_id)s AND tenant_id = %(tenant_id)s AND deleted_at IS NULL
RETURNING *

-- name: delete
-- Marks a workspace as deleted (WS-8); zero rows: it is in another phase, or an operation is under way.
UPDATE workspaces SET
  desired_state = 'DELETED', desired_by = %(desired_by)s, deleted_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND tenant_id = %(tenant_id)s AND deleted_at IS NULL
  AND operation = 'NONE' AND phase = ANY(%(phases)s)
RETURNING *

-- name: lower_idle
-- Lowers the desired state of idle workspaces by one level (003 §3: the TTL manager writes as the API).
UPDATE workspaces SET
  desired_state = CASE desired_state WHEN 'RUNNING' THEN 'STANDBY' ELSE 'ARCHIVED' END, desired_by = %(desired_by)s
WHERE workspace_id IN (
    SELECT workspace_id FROM workspaces WHERE idle_at <= coalesce(%(now)s, now())
    ORDER BY idle_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)
RETURNING workspace_id

-- name: record_observation
-- Stores an observation, with the role of the monitor. Zero rows: there is a later one, or the row has changed since it
-- was read.
UPDATE workspaces SET conditions = %(conditions)s, phase = %(phase)s, observed_at = %(observed_at)s
WHERE workspace_id = %(workspace_id)s
  AND (observed_at IS NULL OR observed_at < %(observed_at)s)
  AND archive_key IS NOT DISTINCT FROM %(archive_key)s
  AND error_info IS NOT DISTINCT FROM %(error_info)s
  AND deleted_at IS NOT DISTINCT FROM %(deleted_at)s
RETURNING *

-- name: refresh_observed_at
-- Updates the time of the last observation, which found no change.
UPDATE workspaces SET observed_at = %(observed_at)s
WHERE workspace_id = ANY(%(workspace_ids)s) AND observed_at < %(observed_at)s

-- name: fleet_page
-- A page of all workspaces that are not cleaned up, in order of creation.
SELECT * FROM workspaces WHERE cleaned_at IS NULL AND sequence > %(above)s ORDER BY sequence LIMIT %(limit)s

-- name: begin
-- Begins an operation, with the role of the reconciler, if the row still matches the decision (WS-7).
UPDATE workspaces SET
  operation = %(operation)s, op_id = %(op_id)s, op_started_at = coalesce(%(now)s, now()), error_info = NULL,
  error_count = 0, next_attempt_at = NULL, tried_at = NULL, home_ctx = home_ctx - 'last_action'
WHERE workspace_id = %(workspace_id)s AND operation = 'NONE' AND cleaned_at IS NULL
  AND desired_state = %(desired_state)s
  AND observed_at IS NOT DISTINCT FROM %(observed_at)s
  AND error_info IS NOT DISTINCT FROM %(error_info)s
RETURNING *

-- name: acquire_lease
-- Leases the operation to one process; zero rows: another holds it, or the row no longer matches the decision.
UPDATE workspaces SET
  lease_owner = %(owner)s, lease_until = coalesce(%(now)s, now()) + %(lease_seconds)s * interval '1 second',
  tried_at = coalesce(tried_at, %(now)s, now())
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation <> 'NONE'
  AND (lease_until IS NULL OR lease_until <= coalesce(%(now)s, now()))
  AND acted_at IS NOT DISTINCT FROM %(acted_at)s
  AND observed_at IS NOT DISTINCT FROM %(observed_at)s
RETURNING *

-- name: renew_lease
-- Renews a lease that is still held.
UPDATE workspaces SET lease_until = coalesce(%(now)s, now()) + %(lease_seconds)s * interval '1 second'
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND lease_owner = %(owner)s
RETURNING true

-- name: note_action
-- Records a completed action, which is to be observed now, and releases the lease.
UPDATE workspaces SET
  acted_at = coalesce(%(now)s, now()), archive_key = %(archive_key)s, home_ctx = %(home_ctx)s, next_attempt_at = NULL,
  lease_owner = NULL, lease_until = NULL, handed_at = NULL
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND lease_owner = %(owner)s
RETURNING *

-- name: note_failure
-- Records a failure of the operation, and releases the lease.
UPDATE workspaces SET
  acted_at = coalesce(%(now)s, now()), home_ctx = %(home_ctx)s, error_info = %(error_info)s, next_attempt_at = NULL,
  tried_at = NULL, lease_owner = NULL, lease_until = NULL, handed_at = NULL
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation <> 'NONE'
  AND (lease_owner IS NOT DISTINCT FROM %(owner)s OR lease_until <= coalesce(%(now)s, now()))
  AND error_info IS NOT DISTINCT FROM %(error_before)s
RETURNING *

-- name: note_outage
-- Records that the provider did not answer, and releases the lease. This does not count as a failure.
UPDATE workspaces SET
  acted_at = coalesce(%(now)s, now()), home_ctx = %(home_ctx)s, error_count = error_count + 1,
  tried_at = NULL,
  next_attempt_at = coalesce(%(now)s, now()) + %(backoff_seconds)s * interval '1 second',
  lease_owner = NULL, lease_until = NULL, handed_at = NULL
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND lease_owner = %(owner)s
RETURNING *

-- name: complete
-- Ends an operation that was observed to be complete.
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
-- Ends an operation with a terminal error and keeps its id, in one statement (003 §4; WS-7).
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
-- Records that long work was handed over; zero rows: it was handed over recently, or is under way.
UPDATE workspaces SET handed_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND op_id = %(op_id)s AND operation <> 'NONE'
  AND (handed_at IS NULL OR handed_at <= coalesce(%(now)s, now()) - %(again_after_seconds)s * interval '1 second')
  AND (lease_until IS NULL OR lease_until <= coalesce(%(now)s, now()))
RETURNING true

-- name: plan_observation
-- Plans the next observation of a workspace; zero rows: an earlier one is already planned.
UPDATE workspaces SET next_look_at = coalesce(%(now)s, now()) + %(seconds)s * interval '1 second'
WHERE workspace_id = %(workspace_id)s AND cleaned_at IS NULL
  AND (next_look_at IS NULL OR next_look_at <= coalesce(%(now)s, now())
       OR next_look_at > coalesce(%(now)s, now()) + (%(seconds)s + 1) * interval '1 second')
RETURNING true

-- name: claim_unsettled
-- Claims workspaces that differ from their desired state and whose observation is overdue, each for one tick (D10).
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
-- Counts workspaces that differ from their desired state, up to a bound; and the age of the oldest operation.
SELECT count(*), coalesce(max(extract(epoch FROM coalesce(%(now)s, now()) - op_started_at)), 0)::float8 FROM (
  SELECT op_started_at FROM workspaces
  WHERE cleaned_at IS NULL
    AND (operation <> 'NONE' OR phase <> 'ERROR' AND desired_state <> phase OR deleted_at IS NOT NULL)
  ORDER BY coalesce(next_look_at, '-infinity'), sequence LIMIT %(at_most)s) AS found

-- name: in_error
-- Counts workspaces in ERROR, up to a bound; and those that lost their home, or are about to be declared lost.
SELECT count(*), count(*) FILTER (WHERE error_info ->> 'reason' = 'DataLost'
  OR conditions #>> '{policy.healthy,reason}' = 'ContainerWithoutVolume')
FROM (SELECT error_info, conditions FROM workspaces WHERE phase = 'ERROR' LIMIT %(at_most)s) AS found

-- name: count_by_phase
-- Counts workspaces in each phase, among the oldest ones.
SELECT phase, count(*) FROM (
  SELECT phase FROM workspaces WHERE cleaned_at IS NULL ORDER BY sequence LIMIT %(at_most)s) AS found
GROUP BY phase ORDER BY phase

-- name: recover
-- Clears an error, on an operator's order, and sets the archive to continue from.
UPDATE workspaces SET
  error_info = NULL, error_count = 0, start_count = 0, archive_key = %(archive_key)s, home_ctx = %(home_ctx)s,
  settled_at = coalesce(%(now)s, now())
WHERE workspace_id = %(workspace_id)s AND operation = 'NONE' AND phase = 'ERROR' AND deleted_at IS NULL
  AND error_info IS NOT DISTINCT FROM %(error_info)s
  AND archive_key IS NOT DISTINCT FROM %(archive_key_before)s
RETURNING *

-- name: set_event_actor
-- Sets the actor and the reason for the events of this transaction.
SELECT set_config('dpp.actor', %(actor)s, true), set_config('dpp.reason', %(reason)s, true)
