"""Faults of the chamberlain and of what he deletes: what would lose data, keep it for ever, or tell of it wrongly."""

from tests.mutants.fault import Fault

_CLEANER = "tests/retention/test_cleaner.py"
_CRASHES = "tests/retention/test_crashes.py"
_READERS = "tests/retention/test_readers.py"
_FAILURES = "tests/retention/test_failures.py"
_DUE_RESULTS = (
    "  WHERE kind = 'RESULT' AND created_at < %(before)s\n"
    "    AND (created_at, object_key) >"
    " (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))\n"
)

FAULTS = (
    Fault(
        "off-the-list-before-s3-answers",
        "S3 is away for a moment, and nothing knows of its objects any more.",
        "lifecycle/retention/deletions.py",
        "    try:\n        refused = storage.delete(keys)\n",
        "    with database.connection() as connection:\n"
        "        store.note_deletions(connection, keys, {}, now)\n"
        "    try:\n        refused = storage.delete(keys)\n",
        f"{_CRASHES}::test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice",
    ),
    Fault(
        "refused-counts-as-gone",
        "What S3 refused to delete stays there for ever.",
        "lifecycle/retention/deletions.py",
        "    gone = [key for key in keys if key not in refused]\n",
        "    gone = list(keys)\n",
        f"{_FAILURES}::test_what_s3_refuses_stays_on_the_list_is_warned_of_and_goes_later",
    ),
    Fault(
        "nothing-waits-for-a-failed-class",
        "A batch fails, and what its rows pointed at is kept for a night longer.",
        "lifecycle/retention/cleaner.py",
        "            self._note(report, error)\n            return False\n",
        "            self._note(report, error)\n",
        f"{_FAILURES}::test_what_a_failed_class_points_at_waits_with_it_and_no_other_does",
    ),
    Fault(
        "delete-without-the-lease",
        "Two chamberlains delete, each by figures of its own.",
        "lifecycle/retention/cleaner.py",
        "            exclusive.keep(connection, self.lease)\n",
        "",
        f"{_CLEANER}::test_a_chamberlain_that_slept_past_its_time_deletes_nothing",
    ),
    Fault(
        "delete-what-was-stopped",
        "An operator stops a cleanup, and it goes on deleting without a word of it.",
        "lifecycle/retention/cleaner.py",
        "                raise _Stopped\n",
        "                pass\n",
        f"{_CLEANER}::test_a_batch_that_an_operator_stopped_is_undone",
    ),
    Fault(
        "half-a-tasks-results",
        "A batch ends within a task's results, and half of them are shown.",
        "lifecycle/retention/classes.sql",
        f"{_DUE_RESULTS}  ORDER BY created_at FETCH FIRST (%(limit)s) ROWS WITH TIES\n",
        f"{_DUE_RESULTS}  ORDER BY created_at, object_key LIMIT %(limit)s\n",
        f"{_READERS}::test_a_task_is_read_with_all_of_its_results_or_with_none",
    ),
    Fault(
        "read-at-many-moments",
        "A ticket is shown whose result and history have just gone.",
        "platform/db/postgres.py",
        '        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")\n',
        "",
        f"{_READERS}::test_what_goes_with_its_history_is_read_with_all_of_it_or_not_found",
    ),
)
