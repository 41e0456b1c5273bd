"""What is proved about a rule set from its whole decision diagram, and what its tests cover."""
