"""The vocabulary of the contract: the words of its enums, the names of tools, findings. Everything imports it."""
