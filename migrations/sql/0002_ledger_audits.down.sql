DROP TABLE ledger_rebuilds;
DROP TABLE ledger_audits;
