"""The layer that keeps writes in memory, so that each object is written once."""
