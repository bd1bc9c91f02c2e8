"""Workspaces: what a developer asked for, what is really there, and an ordered step at a time between them (WS-1)."""
