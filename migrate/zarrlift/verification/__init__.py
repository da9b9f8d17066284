"""Verification that a migration preserved everything, for jobs and for pairs of archives.

For a job: `documents` (a `zarr.json` against its plan), `sampling` (which chunks are compared) and
`before_publishing` (their comparison, or that of all). For two archives: `archives`, `arrays`, `v3_tree`,
`attributes`, `conventions`, `node_differences` and `report`. For both: `array_values`, which compares what
zarrlift decodes (`source_objects`), after the changes of the recipe (`expectation`), with what zarr-python
reads (`zarr_python_reader`).

Nothing is imported here: a job needs only the first part, and loads it while chunks move.
"""
