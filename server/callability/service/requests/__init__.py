"""What a request may hold: the errors that refuse it, and the limits that are checked before it is parsed."""
