"""Asking the policy by `callability.client`, with one form for its errors."""
