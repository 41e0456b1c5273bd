"""A soak: replicas of a service under load, while one fault after the other happens to them (`make soak`)."""
