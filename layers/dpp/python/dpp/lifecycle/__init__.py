"""The data lifecycle (002): events become tasks, tasks are run, messages report the results, and old data is deleted.

`flow/` turns events into answers, `retention/` deletes. The source document names five roles: the sentinel (poller)
reads events from the sources, the king (dispatcher) creates a task for each event, the general (runner) has each task
run by a soldier (a task run), the envoy (notifier) sends messages, and the chamberlain (cleaner) deletes.
"""
