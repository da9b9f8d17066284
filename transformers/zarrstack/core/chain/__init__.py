"""Codec chains as data, and which readers know which codec."""
