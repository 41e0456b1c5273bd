"""Reading the files of a policy: into rules and tests, or into findings about their form."""
