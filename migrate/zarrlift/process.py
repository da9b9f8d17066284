"""Whose process this is."""

ours = False
"""True only where the command line owns the whole process, so that it may fork. A library never may."""
