"""Why can an AI agent not call a tool that exists, and what should it tell its user?"""

from importlib.metadata import version

__version__ = version("callability")
