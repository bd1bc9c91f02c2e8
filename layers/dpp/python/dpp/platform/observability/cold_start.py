"""Switches the garbage collector off while a function's modules are imported.

An API function's handler imports this module first and calls `imported` after its last import. Imported objects live as
long as the container, but the collector would traverse them repeatedly as they grow: about a tenth of the init's
processor time (bench/cold.py).
"""

import gc

gc.disable()


def imported() -> None:
    """Switch the collector on again and exclude all existing objects from it."""
    gc.freeze()
    gc.enable()
