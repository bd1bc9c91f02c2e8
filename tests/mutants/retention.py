"""Mutations of retention: what would lose data, keep it forever, or report it wrongly."""

from tests.mutants.mutation import mutation

_CLEANER = "tests/retention/test_cleaner.py"
_CRASHES = "tests/retention/test_crashes.py"
_READERS = "tests/retention/test_readers.py"
_FAILURES = "tests/retention/test_failures.py"
_DUE_RESULTS = (
    "  WHERE kind = 'RESULT' AND created_at < %(before)s\n"
    "    AND (created_at, object_key) >"
    " (coalesce(%(after_time)s::timestamptz, '-infinity'), coalesce(%(after_id)s, ''))\n"
)

MUTATIONS = (
    mutation(
        "delisted-before-s3-replies",
        "S3 is away for a moment, and its objects are forgotten.",
        "lifecycle/retention/deletions.py",
        "    try:\n        refused = storage.delete(keys)\n",
        "    with database.connection() as connection:\n"
        "        store.note_deletions(connection, keys, {}, now)\n"
        "    try:\n        refused = storage.delete(keys)\n",
        f"{_CRASHES}::test_a_crash_at_any_call_loses_nothing_and_does_nothing_twice",
    ),
    mutation(
        "refused-counts-as-deleted",
        "An object that S3 refused to delete stays forever.",
        "lifecycle/retention/deletions.py",
        "    gone = [key for key in keys if key not in refused]\n",
        "    gone = list(keys)\n",
        f"{_FAILURES}::test_what_s3_refuses_stays_on_the_list_is_warned_of_and_goes_later",
    ),
    mutation(
        "ignore-failed-class",
        "A batch fails, and the rows that it blocks are deleted all the same.",
        "lifecycle/retention/cleaner.py",
        "            self._note(report, error)\n            return False\n",
        "            self._note(report, error)\n",
        f"{_FAILURES}::test_what_a_failed_class_points_at_waits_with_it_and_no_other_does",
    ),
    mutation(
        "delete-without-lease",
        "Two cleaners delete at once, each with its own figures.",
        "lifecycle/retention/cleaner.py",
        "            exclusive.keep(connection, self.lease)\n",
        "",
        f"{_CLEANER}::test_a_chamberlain_that_slept_past_its_time_deletes_nothing",
    ),
    mutation(
        "delete-after-stop",
        "An operator stops a cleanup, and it continues to delete.",
        "lifecycle/retention/cleaner.py",
        "                raise _Stopped\n",
        "                pass\n",
        f"{_CLEANER}::test_a_batch_that_an_operator_stopped_is_undone",
    ),
    mutation(
        "split-results-of-task",
        "A batch ends within a task's results, and half of them are still shown.",
        "lifecycle/retention/classes.sql",
        f"{_DUE_RESULTS}  ORDER BY created_at FETCH FIRST (%(limit)s) ROWS WITH TIES\n",
        f"{_DUE_RESULTS}  ORDER BY created_at, object_key LIMIT %(limit)s\n",
        f"{_READERS}::test_a_task_is_read_with_all_of_its_results_or_with_none",
    ),
    mutation(
        "read-in-several-snapshots",
        "A ticket is shown whose result and history have just been deleted.",
        "platform/db/postgres.py",
        '        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")\n',
        "",
        f"{_READERS}::test_what_goes_with_its_history_is_read_with_all_of_it_or_not_found",
    ),
)
