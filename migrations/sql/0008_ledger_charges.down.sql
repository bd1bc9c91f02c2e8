-- The release before adds up the rows and what was carried, which are all still there.
DROP TRIGGER runs_are_charged ON runs;
DROP TRIGGER runs_that_come_settled_are_charged ON runs;
DROP TABLE ledger_charges;
DROP FUNCTION keep_ledger_charges, add_charge, count_charges_anew;
