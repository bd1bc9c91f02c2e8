DROP TABLE auth_error_decision, auth_error_policy_set, auth_error_deploy, auth_error_cluster_item, auth_error_cluster,
  processed_message, outbox_message, auth_error_transition, auth_error;
DROP FUNCTION keep_auth_error_transition, keep_cluster_count;
