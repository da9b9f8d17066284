"""Chunk grids, chunk keys of every format, frames, shard indexes."""
