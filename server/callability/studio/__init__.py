"""A page on loopback for editing a policy: its verdicts, the findings of a draft, and what the draft changes."""
