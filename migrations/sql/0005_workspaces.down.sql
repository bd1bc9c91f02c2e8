-- The roles stay: they belong to the whole cluster, and another database may use them.
DROP TABLE workspace_events;
DROP TABLE workspaces;
DROP FUNCTION keep_workspace_events();
DROP FUNCTION keep_workspace_event(text, text, uuid, text, text, text, text);
DROP FUNCTION check_workspace_change();
DROP FUNCTION workspace_phase(jsonb, timestamptz);
DROP FUNCTION are_conditions(jsonb);
