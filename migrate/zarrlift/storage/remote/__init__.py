"""Object stores, HTTP and zarr stores: requests, their number at once, errors."""
