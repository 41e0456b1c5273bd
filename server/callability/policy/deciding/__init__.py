"""From rules to a decision table: every combination of facts is decided once, by the rules engine."""
