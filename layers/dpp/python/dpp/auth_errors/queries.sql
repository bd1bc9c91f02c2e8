-- name: record
-- Record one error per reporter and requestId; zero rows: it exists (AUTH-1).
INSERT INTO auth_error (
  auth_error_id, reported_by, dedup_key, payload_hash, occurred_at, http_status, exception_class, exception_message,
  root_cause_class, root_cause_message, stacktrace, service, http_method, request_path, status, retry_count, moved_by,
  created_at, updated_at)
VALUES (
  %(auth_error_id)s, %(reported_by)s, %(request_id)s, %(payload_hash)s, %(occurred_at)s, %(http_status)s,
  %(exception_class)s, %(exception_message)s, %(root_cause_class)s, %(root_cause_message)s, %(stacktrace)s,
  %(service)s, %(http_method)s, %(request_path)s, 'NEW', 0, %(reported_by)s,
  coalesce(%(now)s, now()), coalesce(%(now)s, now()))
ON CONFLICT (reported_by, dedup_key) DO NOTHING
RETURNING *

-- name: find_by_key
-- The error of a reporter's requestId.
SELECT * FROM auth_error WHERE reported_by = %(reported_by)s AND dedup_key = %(request_id)s

-- name: find
-- An error by its id.
SELECT * FROM auth_error WHERE auth_error_id = %(auth_error_id)s

-- name: lock
-- The same, locked until the transaction ends; every change of an error's status locks it first.
SELECT * FROM auth_error WHERE auth_error_id = %(auth_error_id)s FOR NO KEY UPDATE

-- name: request_analysis
-- NEW or RETRY to ANALYSIS_REQUESTED.
UPDATE auth_error SET
  status = 'ANALYSIS_REQUESTED', next_retry_at = NULL, moved_by = %(actor)s,
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE auth_error_id = %(auth_error_id)s AND status IN ('NEW', 'RETRY')
RETURNING *

-- name: complete_analysis
-- ANALYSIS_REQUESTED or RETRY to ANALYSIS_COMPLETED.
UPDATE auth_error SET
  status = 'ANALYSIS_COMPLETED', next_retry_at = NULL, moved_by = %(actor)s,
  analyzed_at = greatest(coalesce(%(now)s, now()), updated_at),
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE auth_error_id = %(auth_error_id)s AND status IN ('ANALYSIS_REQUESTED', 'RETRY')
RETURNING *

-- name: note_failure
-- To RETRY after a handler's failure, unless the error is further or terminal.
UPDATE auth_error SET
  status = 'RETRY', retry_count = retry_count + 1, next_retry_at = %(next_retry_at)s, last_failure = %(failure)s,
  moved_by = %(actor)s, updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE auth_error_id = %(auth_error_id)s AND status IN ('NEW', 'RETRY', 'ANALYSIS_REQUESTED')
RETURNING *

-- name: decide
-- From the expected status to the decision's; zero rows: the error has another status.
UPDATE auth_error SET
  status = %(to_status)s, next_retry_at = NULL, moved_by = %(actor)s,
  escalated_at = CASE WHEN %(escalates)s THEN greatest(coalesce(%(now)s, now()), updated_at) ELSE escalated_at END,
  updated_at = greatest(coalesce(%(now)s, now()), updated_at)
WHERE auth_error_id = %(auth_error_id)s AND status = %(from_status)s
RETURNING *

-- name: insert_decision
-- Append-only; zero rows: the id exists.
INSERT INTO auth_error_decision (
  decision_id, auth_error_id, decision_type, decided_by, actor, reason, inputs, policy_version, policy_name,
  from_status, to_status, decided_at)
VALUES (
  %(decision_id)s, %(auth_error_id)s, %(decision_type)s, %(decided_by)s, %(actor)s, %(reason)s, %(inputs)s,
  %(policy_version)s, %(policy_name)s, %(from_status)s, %(to_status)s, coalesce(%(now)s, now()))
ON CONFLICT (decision_id) DO NOTHING
RETURNING decision_id

-- name: decision
-- A decision by its id.
SELECT {decision.*} FROM auth_error_decision WHERE decision_id = %(decision_id)s

-- name: decisions
-- Decisions on an error, the oldest first.
SELECT {decision.*} FROM auth_error_decision WHERE auth_error_id = %(auth_error_id)s ORDER BY sequence

-- name: system_decisions
-- Decisions of policies below a sequence, the newest first, with the policies of their version.
SELECT d.sequence, d.decision_id, d.decision_type, d.policy_name, d.inputs, p.version, p.policies
FROM auth_error_decision d JOIN auth_error_policy_set p ON p.version = d.policy_version
WHERE d.sequence < %(below)s ORDER BY d.sequence DESC LIMIT %(limit)s

-- name: transitions
-- The history of an error, as the trigger wrote it.
SELECT from_status, to_status, actor, failure, happened_at FROM auth_error_transition
WHERE auth_error_id = %(auth_error_id)s ORDER BY transition_id

-- name: page
-- Errors behind a page key, the newest occurrence first; for one cluster see page_of_cluster.
SELECT * FROM auth_error
WHERE (occurred_at, sequence) < (%(before)s, %(below)s)
  AND (%(since)s::timestamptz IS NULL OR occurred_at >= %(since)s)
  AND (%(status)s::text IS NULL OR status = %(status)s)
  AND (%(exception_class)s::text IS NULL OR exception_class = %(exception_class)s)
ORDER BY occurred_at DESC, sequence DESC LIMIT %(limit)s

-- name: page_of_cluster
-- The same for one cluster.
SELECT e.* FROM auth_error_cluster_item i JOIN auth_error e USING (auth_error_id)
WHERE i.cluster_id = %(cluster_id)s AND (i.occurred_at, i.sequence) < (%(before)s, %(below)s)
  AND (%(since)s::timestamptz IS NULL OR i.occurred_at >= %(since)s)
  AND (%(status)s::text IS NULL OR e.status = %(status)s)
  AND (%(exception_class)s::text IS NULL OR e.exception_class = %(exception_class)s)
ORDER BY i.occurred_at DESC, i.sequence DESC LIMIT %(limit)s

-- name: open_of_cluster
-- Open errors of a cluster, the oldest first; to be escalated: those that are not escalated yet.
SELECT e.auth_error_id FROM auth_error_cluster_item i JOIN auth_error e USING (auth_error_id)
WHERE i.cluster_id = %(cluster_id)s AND e.status = ANY (%(statuses)s)
  AND (NOT %(escalates)s OR e.escalated_at IS NULL)
ORDER BY i.occurred_at, i.sequence LIMIT %(limit)s

-- name: join_cluster
-- Add an error to the cluster of its hash, which is created if needed; a repetition is counted once.
WITH cluster AS (
  INSERT INTO auth_error_cluster (
    cluster_id, hash_version, stack_hash, exception_class, error_count, first_seen_at, last_seen_at)
  VALUES (%(cluster_id)s, %(hash_version)s, %(stack_hash)s, %(exception_class)s, 1, %(reported_at)s, %(reported_at)s)
  ON CONFLICT (hash_version, stack_hash) DO UPDATE SET
    error_count = auth_error_cluster.error_count + CASE WHEN EXISTS (
      SELECT FROM auth_error_cluster_item i
      WHERE i.auth_error_id = %(auth_error_id)s AND i.cluster_id = auth_error_cluster.cluster_id) THEN 0 ELSE 1 END,
    first_seen_at = least(auth_error_cluster.first_seen_at, excluded.first_seen_at),
    last_seen_at = greatest(auth_error_cluster.last_seen_at, excluded.last_seen_at)
  RETURNING *
), item AS (
  INSERT INTO auth_error_cluster_item (cluster_id, auth_error_id, occurred_at, sequence, reported_at)
  SELECT cluster_id, %(auth_error_id)s, %(occurred_at)s, %(sequence)s, %(reported_at)s FROM cluster
  ON CONFLICT DO NOTHING
)
SELECT {cluster.*} FROM cluster

-- name: cluster
-- A cluster by its id.
SELECT {cluster.*} FROM auth_error_cluster WHERE cluster_id = %(cluster_id)s

-- name: clusters_of
-- The clusters of an error, the newest version of the hash first.
SELECT {cluster.*} FROM auth_error_cluster_item JOIN auth_error_cluster USING (cluster_id)
WHERE auth_error_id = %(auth_error_id)s ORDER BY length(hash_version) DESC, hash_version DESC

-- name: clusters
-- The clusters with the newest errors.
SELECT {cluster.*} FROM auth_error_cluster ORDER BY last_seen_at DESC, cluster_id LIMIT %(limit)s

-- name: seen_lately
-- The number of errors of a cluster within some minutes, counted up to the highest count that a policy needs.
SELECT count(*) FROM (
  SELECT FROM auth_error_cluster_item
  WHERE cluster_id = %(cluster_id)s
    AND reported_at > coalesce(%(now)s, now()) - make_interval(mins => %(minutes)s)
  LIMIT %(at_most)s) AS lately

-- name: growing
-- The number of clusters with an error within ten minutes, and of those among them that are less than an hour old.
SELECT count(*), count(*) FILTER (WHERE first_seen_at > coalesce(%(now)s, now()) - interval '1 hour')
FROM auth_error_cluster WHERE last_seen_at > coalesce(%(now)s, now()) - interval '10 minutes'

-- name: escalate_cluster
-- Mark a cluster as escalated to an operator.
UPDATE auth_error_cluster SET escalated_at = greatest(coalesce(%(now)s, now()), coalesce(escalated_at, first_seen_at))
WHERE cluster_id = %(cluster_id)s

-- name: latest_deploy
-- The minutes since the newest deployment of a service or of all services; no row: there is none in the past.
SELECT floor(extract(epoch FROM coalesce(%(now)s, now()) - deployed_at) / 60)::int FROM auth_error_deploy
WHERE deployed_at <= coalesce(%(now)s, now()) AND (service IS NULL OR service = %(service)s)
ORDER BY deployed_at DESC LIMIT 1

-- name: insert_deploy
-- Store a deployment that an operator reports.
INSERT INTO auth_error_deploy (deploy_id, service, label, actor, deployed_at)
VALUES (%(deploy_id)s, %(service)s, %(label)s, %(actor)s, coalesce(%(now)s, now()))
RETURNING deployed_at

-- name: latest_policies
-- The policies in force.
SELECT version, policies FROM auth_error_policy_set ORDER BY version DESC LIMIT 1

-- name: policy_set
-- A version of the policies with its author; the newest if no version is given.
SELECT version, policies, actor, reason, created_at FROM auth_error_policy_set
WHERE %(version)s::bigint IS NULL OR version = %(version)s
ORDER BY version DESC LIMIT 1

-- name: insert_policies
-- Store a new version; older ones remain.
INSERT INTO auth_error_policy_set (policies, actor, reason, created_at)
VALUES (%(policies)s, %(actor)s, %(reason)s, coalesce(%(now)s, now()))
RETURNING version

-- name: not_hashed
-- Analysed errors that are in no cluster of a version, in the order of recording.
SELECT e.* FROM auth_error e
WHERE e.sequence > %(above)s AND e.analyzed_at IS NOT NULL AND NOT EXISTS (
  SELECT FROM auth_error_cluster_item i JOIN auth_error_cluster c USING (cluster_id)
  WHERE i.auth_error_id = e.auth_error_id AND c.hash_version = %(hash_version)s)
ORDER BY e.sequence LIMIT %(limit)s

-- name: escalated_lately
-- The number of escalations by policies within some seconds, among the last 1,000 decisions.
SELECT count(*) FROM (
  SELECT decision_type, decided_by, decided_at FROM auth_error_decision ORDER BY sequence DESC LIMIT 1000) AS last
WHERE decision_type = 'ESCALATE' AND decided_by = 'SYSTEM'
  AND decided_at > coalesce(%(now)s, now()) - make_interval(secs => %(seconds)s)

-- columns: cluster
cluster_id, hash_version, stack_hash, exception_class, error_count, first_seen_at, last_seen_at, escalated_at

-- columns: decision
decision_id, auth_error_id, decision_type, decided_by, actor, reason, inputs, policy_version, policy_name, from_status,
to_status, decided_at
