"""The 2022 draft of Zarr v3."""
