"""`python -m tests.sim`. The command is a module of its own because spawned processes can't import this one."""

import sys

from tests.sim.command import main

if __name__ == "__main__":
    sys.exit(main())
