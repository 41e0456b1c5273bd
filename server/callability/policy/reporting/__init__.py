"""Reports about a policy for people: explanations, tables, effects, differences, and meanings of findings."""
