-- The roles stay: they belong to the whole cluster, and another database may use them.
DROP TABLE run_inputs, runs, budget_credits, api_keys, tenants;
DROP FUNCTION refuse_change, refuse_deletion, refuse_deletion_alone, follow_machine;
