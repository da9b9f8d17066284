"""Verification that a migration preserved everything, for jobs and for pairs of archives.

For a job: `documents` (a `zarr.json` against its plan), `sampling` (which chunks are compared),
`sampled_chunks` (their comparison through zarr-python) and `every_chunk` (all of them). For two archives:
`archives`, `arrays`, `v3_tree`, `attributes`, `conventions`, `node_differences` and `report`. For both:
`array_values`, which compares all values of an array, `regions` and `zarr_python_reader`. Without the source:
`value_digests` and `digest_report`.

Nothing is imported here: a job needs only the first part, and loads it while chunks move.
"""
