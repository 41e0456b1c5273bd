"""Why can an AI agent not call a tool that exists, and what should it tell its user?"""

__version__: str


def __getattr__(name: str) -> str:
    # To look it up takes longer than all else that a short process does at its start.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415

        return version("callability")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
