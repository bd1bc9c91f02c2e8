"""What ends a command with one message and exit code 1, instead of a traceback."""


class StackError(Exception):
    """The stack can't do what was asked; the message says what to do."""
