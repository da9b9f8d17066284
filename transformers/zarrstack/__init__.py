"""A stack of storage transformers for zarr-python 3 arrays, above the facts of the formats (`core`)."""
