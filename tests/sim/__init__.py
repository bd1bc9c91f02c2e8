"""A deterministic simulation of metered runs: the real use cases on in-memory servers, driven by a seed.

keys, lua                            Redis: its commands on a dict, and the platform's own Lua scripts
dialect, schema, database            Postgres: SQLite runs the platform's own statements and schema in its dialect
ports                                stand-ins for psycopg, redis-py and boto3 on these servers
choices, scheduler                   every decision comes from one stream; actors run on threads, one at a time
faults                               the failures that can be injected, each of which can be switched off
patches                              replaces the real code's clock, ids, threads and drivers
actors, simulation, run              the actors, and one schedule from its first call until everything has ended
invariants                           what must hold at the end
shrink                               reduces a failing schedule to the smallest that still fails

test_conformance_*.py compares the in-memory servers with real ones. test_mutations.py shows that the simulation finds
the deliberate bugs of tests/mutants.
"""
