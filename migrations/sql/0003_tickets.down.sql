DROP TABLE ops_run_receipts, ticket_reaper_reports, exclusive_leases, ticket_results, ticket_transitions, tickets,
  execution_switches, emergency_stop_changes, emergency_stop, operator_keys;
DROP FUNCTION check_ticket_has_result, keep_ticket_transition, keep_emergency_stop_change;
