"""gRPC: which calls are admitted, how each begins and ends, health and reflection."""
