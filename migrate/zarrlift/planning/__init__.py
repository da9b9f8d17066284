"""Makes a plan of an archive and a recipe: destinations, routes, regrid boxes, `zarr.json`."""
