"""Who may call the service: callers by token or certificate, read from a file, and what each may call."""
