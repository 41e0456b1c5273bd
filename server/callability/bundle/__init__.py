"""Compiled policies as files: reading them, and deciding from them without the rule files."""
