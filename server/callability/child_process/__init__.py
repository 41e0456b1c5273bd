"""Work in a child process that has limits, so that it can neither hold up nor harm the process that started it."""
