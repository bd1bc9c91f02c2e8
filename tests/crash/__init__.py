"""The crash matrix: every call that the platform makes to a server, and every way in which it can go wrong there.

- `points.py` numbers and names a process's calls, and makes one of them go wrong.
- `drivers.py` puts that between the platform's adapters and their drivers.
- `scenarios.py` are the paths: submit, work, heartbeat, finalize, reap, sweep, reconcile, retain.
- `points.txt` lists their calls as recorded; `python -m tests.crash` writes it anew.
- `aftermath.py` lets time pass, messages come again and the jobs fire, until nothing is left to do.
- `promises.py` says what must hold then.
"""
