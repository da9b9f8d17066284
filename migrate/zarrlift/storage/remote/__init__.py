"""Object stores, HTTP and zarr stores: requests, concurrency, errors."""
