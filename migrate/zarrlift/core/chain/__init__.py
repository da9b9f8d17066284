"""Codec chains as data, and the codecs that each reader supports."""
