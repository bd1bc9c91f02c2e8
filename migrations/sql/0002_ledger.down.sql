DROP TRIGGER runs_leave_their_charges ON runs;
DROP TRIGGER runs_are_charged ON runs;
DROP TRIGGER runs_that_come_settled_are_charged ON runs;
DROP TABLE ledger_charges, ledger_carried, ledger_rebuilds, ledger_audits;
DROP FUNCTION keep_ledger_charges, add_charge, count_charges_anew, carry_charges, check_ledger_carried_change;
