"""What operators see of a running gateway: metrics, logs and the status of its files."""
