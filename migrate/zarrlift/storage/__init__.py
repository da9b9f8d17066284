"""Where bytes lie: local files, zarr stores, fsspec and obstore; readers and writers."""
