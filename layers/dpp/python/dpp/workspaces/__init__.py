"""Workspaces: what a developer asked for, what is really there, and one step at a time between the two (WS-1)."""
