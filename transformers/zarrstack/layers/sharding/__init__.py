"""Chunk keys above, shards below."""
