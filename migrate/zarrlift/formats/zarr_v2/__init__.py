"""Zarr v2, with the deviations of known writers."""
