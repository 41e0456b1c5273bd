"""Names as rules see them: through patterns, which divide all names into classes."""
