"""The known servers and tools, the facts to send about them, and the search index over them."""
