DROP TABLE run_inputs;
DROP TABLE runs;
DROP TABLE budget_credits;
DROP FUNCTION refuse_change();
DROP TABLE api_keys;
DROP TABLE tenants;
