"""The three questions: their facts, statuses and texts, and who can change what."""
