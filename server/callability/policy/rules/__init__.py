"""What a rule file says: rules, laws and words, and what they mean."""
