"""The running gateway, which applies every edit of its files."""
