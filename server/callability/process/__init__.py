"""What a process of ours has, whatever it does: addresses, logs, metrics, child processes, files written whole."""
