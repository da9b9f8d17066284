"""hdmf-zarr, and NWB files written with it."""
