"""Runs the platform's own Lua scripts in process, on the keys of tests/sim/keys.py.

Valkey's Lua is 5.1 with `redis.call` and `cjson`, and so is this one. A script is compiled once a process.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from lupa.lua51 import LuaError, LuaRuntime
from redis.exceptions import ResponseError

from tests.sim.keys import Keys, Reply, Status


class _Interpreter:
    """One Lua state; `keys` is the server that the running script acts on."""

    def __init__(self) -> None:
        self.keys = Keys()
        self.lua: Any = LuaRuntime(register_eval=False, register_builtins=False)
        self.array = self.lua.table_from
        self.lua.globals().redis = self.lua.table(call=self._call)
        self.lua.globals().cjson = self.lua.table(decode=self._decode)

    def compiled(self, source: str) -> Any:
        """The script as a function of KEYS and ARGV."""
        return self.lua.execute(f"return function(KEYS, ARGV)\n{source}\nend")

    def _call(self, command: str, *args: str | int) -> Any:
        return self._as_lua(self.keys.run(command, *args))

    def _as_lua(self, reply: Reply) -> Any:
        """A reply as Redis converts it for Lua: nil is false, a status is a table."""
        if reply is None:
            return False
        if isinstance(reply, Status):
            return self.lua.table(ok=reply)
        if isinstance(reply, list):
            return self.array([False if part is None else part for part in reply])
        return reply

    def _decode(self, text: str) -> Any:
        return self.array(json.loads(text), recursive=True)


@cache
def _interpreter() -> _Interpreter:
    return _Interpreter()


@cache
def _compiled(source: str) -> Any:
    return _interpreter().compiled(source)


def run_script(source: str, keys: Keys, names: Sequence[str], args: Sequence[str]) -> list[str]:
    """Run a script to its end; its reply. Raises ResponseError where the script raises an error."""
    interpreter = _interpreter()
    interpreter.keys = keys
    try:
        reply = _compiled(source)(interpreter.array(names), interpreter.array(args))
    except LuaError as error:
        raise ResponseError(str(error)) from error
    return [reply[index] for index in range(1, len(reply) + 1)]
