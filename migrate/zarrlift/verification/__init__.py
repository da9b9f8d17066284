"""Whether a migration kept everything: the checks of a job, and `verify` for two archives.

Of a job: `checks` (when and where they run), `documents` (a `zarr.json` against its plan),
`sample` (which chunks), `chunks` (compared through zarr-python), `full` (all of them), `codecs`
(our codecs against numcodecs). Of two archives: `verification` (the public function), `archives`,
`arrays`, `tree`, `attributes`, `differences` and `report`. Of both: `regions`, which compares
all values of an array, and `blocks`.

Nothing is imported here: a job needs only the first half, and loads it while chunks move.
"""
