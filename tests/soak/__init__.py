"""Soak tests: real clients use the local stack while its processes are killed at random; then everything is checked.

`make soak MINUTES=10` runs on a separate stack. Clients submit and repeat while function processes are killed, server
connections cut and cached scripts flushed. When all runs have ended, the exit code is 1 if a micro-dollar, a run, an
object or a message is missing or left over.
"""
