"""What is proved about a rule set from its whole decision table, and what its tests cover."""
