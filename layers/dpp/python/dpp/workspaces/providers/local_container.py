"""The default program of a local container: waits for SIGTERM."""

import signal


def main() -> None:
    """Wait for SIGTERM; one that arrives before it is blocked ends the process as well."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
