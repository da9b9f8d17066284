"""Codec chains of Zarr v2, and writing its documents."""
