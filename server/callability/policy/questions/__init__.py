"""What is fixed about each question: its facts, its statuses, its texts, and who can change what."""
