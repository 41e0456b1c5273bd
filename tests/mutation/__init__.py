"""Breaks drawn places of the code, one at a time, and says which of them the tests notice."""
