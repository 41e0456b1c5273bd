"""The gateway's own tools, from the dispatch of a call to its answer."""
