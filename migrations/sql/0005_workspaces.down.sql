-- What the provider holds of the workspaces stays.
DROP FUNCTION make_workspace_event_weeks, drop_workspace_event_week, due_workspace_events, workspace_event_weeks;
DROP TABLE workspace_events, workspaces;
DROP FUNCTION keep_workspace_events, keep_workspace_event, check_workspace_change, workspace_phase, are_conditions;
