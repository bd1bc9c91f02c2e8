"""What ends a command with one message and an exit code, instead of a traceback."""


class StackError(Exception):
    """The stack can't do what was asked; the message says what to do."""

    exit_code: int = 1
