"""What a decision costs, measured: `make bench`."""
