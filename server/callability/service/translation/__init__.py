"""From the contract to the facts of rules, and from verdicts back to the contract."""
