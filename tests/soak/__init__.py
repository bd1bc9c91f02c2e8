"""A soak: real clients against the local stack while its processes are killed at random; then the books are checked.

`make soak MINUTES=10` brings up a stack of its own, lets clients submit and repeat, kills environments of functions,
server connections and cached scripts, waits until all has come to rest, and ends with exit code 1 where a micro, a run
or a message is missing or too many.
"""
