"""The content of a rule file: rules, laws and words, and their semantics."""
