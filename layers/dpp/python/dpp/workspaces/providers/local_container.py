"""What a local container runs where nothing else was asked for: wait to be told to end."""

import signal


def main() -> None:
    """Return at SIGTERM, which ends the process even before it is waited for."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
