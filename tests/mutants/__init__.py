"""Deliberate faults in the sources of money and finalize, and the test that catches each.

The simulation has its own (tests/sim/mutations.py), put into the running process. These are put into the text, as a
careless hand would, so that they reach what the simulation models: the SQL, the Lua and the order of the code.
"""
