"""Access to stored bytes: local files, zarr stores, fsspec and obstore; readers and writers."""
