"""From the files of a policy to rules and tests, or to every error of form in them."""
