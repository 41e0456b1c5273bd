"""Editing files that people write: values are set, and every other byte stays."""
