"""Archives in Zarr v3 terms: nodes, layouts, and the inventory of chunks."""
