"""Setting values in files that people write: every other byte stays as it is."""
