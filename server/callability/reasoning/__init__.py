"""What rules mean, and why they decide as they do: the same for rule files and for compiled policies."""
