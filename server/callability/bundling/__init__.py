"""Writing a proved policy as a bundle."""
