"""N5: blocks, datasets, compression."""
