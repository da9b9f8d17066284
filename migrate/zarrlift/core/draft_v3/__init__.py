"""The 2022 draft of Zarr v3: nodes, arrays, data types, codecs."""
