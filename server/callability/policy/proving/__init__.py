"""What is proved of a rule set by looking at its whole decision table, and what its tests reach."""
