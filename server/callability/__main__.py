"""Run the `callability` command by `python -m callability`."""

from callability.command_line import main

main()
