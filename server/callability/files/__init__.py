"""Files that people edit: reading, following and writing them, and where a policy is read from."""
