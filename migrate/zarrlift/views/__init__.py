"""Legacy archives as read-only stores of Zarr v3."""
