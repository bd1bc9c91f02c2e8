"""Deliberate bugs in the sources, and the tests and simulations that catch each of them."""
