"""Servers for the tests of the upstream connection: one that behaves, and two that misbehave on request."""
