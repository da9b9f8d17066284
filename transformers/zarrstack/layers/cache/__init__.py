"""Keeps what was read, in memory and on disk."""
