"""Servers that agents enable and disable: each has one state machine, and only an enable connects it (spec C)."""
