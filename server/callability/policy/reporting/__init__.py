"""What people are told of a policy: explanations, tables, effects, differences, and what findings mean."""
