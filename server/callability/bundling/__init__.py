"""Writing a proved policy as a bundle, and reading the rule files in one."""
