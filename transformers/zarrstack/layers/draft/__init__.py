"""Archives of the 2022 draft of Zarr v3, read and written as they lie."""
