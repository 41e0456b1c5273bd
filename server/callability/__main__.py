"""Run the `callability` command by `python -m callability`."""

from callability.cli import main

main()
