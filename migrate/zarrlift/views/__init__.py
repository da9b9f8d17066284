"""Read-only stores: legacy archives as Zarr v3, Zarr v3 as Zarr v2 or N5, and an HTTP server."""
