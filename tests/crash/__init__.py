"""The crash matrix of runs: each call of a process to Postgres, Redis, SQS and S3, and every way in which it can fail.

- `acts.py` are the paths: submit, work, heartbeat, finalize, reap, sweep, reconcile, retain.
- `environment.py` holds what a path runs on, and `crashes.py` puts paths and environment into the matrix
  (`tests/support/crash_matrix.py`).
- `recovery.py` lets time pass, messages come again and the jobs run, until nothing is left to do.
- `invariants.py` checks what must hold then.
"""
