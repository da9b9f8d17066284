"""Zarr v3."""
