"""Joining the gateway that a user runs, from a process that is started for each client of it."""
