"""Implementations of the ports: containers, volumes and archives on this machine or on AWS."""
