"""Workspaces: containers with a persistent home, moved one step at a time to the owner's desired state (WS-1)."""
