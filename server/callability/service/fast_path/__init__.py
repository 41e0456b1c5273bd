"""Decisions about tools from bytes to bytes: facts are a key to a result that is already encoded."""
