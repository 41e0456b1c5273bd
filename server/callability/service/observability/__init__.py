"""What operators see of decisions: metrics, and the facts that decisions lack."""
