"""A deterministic simulation of the metered run: the real use cases over in-memory ports, driven by a seed.

schema, model_postgres, model_scans          the rows, their constraints and queries as Python,
model_money, model_switch                    the queries of credits, audits and of the switch of execution,
model_redis, model_scripts                   the keys and scripts, all proved equal by test_conformance_*
ports                                        the drivers' faces (psycopg, redis, boto3) on these models
choices, scheduler                           every decision from one stream; actors on threads, one at a time
faults                                       what may go wrong, each class switchable
installed                                    the real code's clock, ids, threads and drivers, replaced
actors, simulation, run                      who acts, and one schedule from its first call to its rest
promises                                     what must hold at rest
shrink, report                               the smallest schedule that still fails, printed
mutations                                    deliberate bugs that the simulation has to find
"""
