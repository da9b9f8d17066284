"""Readers of source formats, one module or folder each; they describe an archive as `Archive`."""
