"""The operator's files: the config and the approvals, read once and checked whole."""
