"""A page to look at a policy, on loopback: what it decides, what is wrong with a draft, and what the draft changes."""
