"""From rules to a decision diagram with the verdict of every combination of facts, which the rules engine confirms."""
