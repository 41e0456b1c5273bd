"""Names as rules see them: through patterns alone, by the classes that these can tell apart."""
