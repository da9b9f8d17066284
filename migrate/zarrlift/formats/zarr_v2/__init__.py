"""Zarr v2, including the deviations of known writers."""
