"""Makes the plan for an archive and a recipe: destinations, routes, regrid boxes, `zarr.json`."""
