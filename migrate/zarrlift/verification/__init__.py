"""Verification that a migration preserved everything, for jobs and for pairs of archives.

For a job: `documents` (a `zarr.json` against its plan), `sampling` (which chunks are compared) and
`before_publishing` (their comparison, or that of all). For two archives: `archives`, `nodes`,
`listed_objects` and `conventions`. For both: `array_values`, which compares what zarrlift decodes, after the
changes of the recipe, with what zarr-python reads (`sides`, `zarr_python_reader`), here or `elsewhere`.

Nothing is imported here: a job needs only the first part, and loads it while chunks move.
"""
