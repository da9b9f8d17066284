"""What an archive holds, in Zarr v3 terms: nodes, layouts, the inventory of chunks."""
