"""The infrastructure, one construct a capability; `stack.py` puts them together."""
