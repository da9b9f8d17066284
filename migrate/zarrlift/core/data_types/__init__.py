"""Data types of Zarr v2, Zarr v3 and numpy; casts and bitwise comparison."""
