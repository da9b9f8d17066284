"""Definitions of the formats and the codecs: pure functions and frozen data, no I/O."""
