"""The page on which a person looks at the user's gateway, and unlocks what a person may unlock."""
