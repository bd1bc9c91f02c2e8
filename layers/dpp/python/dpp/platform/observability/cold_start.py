"""Puts the garbage collector off while a function's modules are imported.

An API function's handler imports this module first and calls `imported` after its last import. What an import makes
stays for the life of the container, yet the collector goes through all of it again and again as it grows: about a tenth
of the init's processor time (bench/cold.py).
"""

import gc

gc.disable()


def imported() -> None:
    """Collect again from here on, without ever looking at what is there by now."""
    gc.freeze()
    gc.enable()
