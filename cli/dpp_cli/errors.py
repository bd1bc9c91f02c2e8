"""Errors that end a command with a message and an exit code instead of a traceback."""


class StackError(Exception):
    """The command failed; the message says why and what to do."""

    exit_code: int = 1
