"""Which agent sends a request, and whom to notify of a changed tool list."""
