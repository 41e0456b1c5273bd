"""Calls to the policy service, in parts that it accepts, with one form for its errors."""
