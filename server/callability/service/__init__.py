"""The policy as a gRPC service: from the contract to facts, and from verdicts back."""
