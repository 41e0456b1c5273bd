"""Lets `python -m callability` be the command."""

from callability.command_line import main

main()
