"""Data types of Zarr v2 and v3 and numpy's, casts, comparison bit for bit."""
