"""The draft layer: reads and writes archives of the 2022 draft of Zarr v3 without converting them."""
