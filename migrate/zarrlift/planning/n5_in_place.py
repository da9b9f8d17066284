"""Requirements for an N5 array to stay in place under a `zarr.json` with the codec `n5_default`.

That codec reads whole blocks with their headers: a full transpose, big-endian `bytes`, and at most one
compressor that both Zarr v3 and N5 support
(https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/n5_default). The package zarr-n5 provides
it for zarr-python; 0.3.0 and 0.3.1 read every fixture, including truncated, padded and mixed edge blocks
(`tests/end_to_end/test_n5_in_place.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from zarrstack.base import plugins
from zarrstack.core.errors import Problem, UsageError

from ..archive.nodes import Layout
from ..core.chain.unchanged_bytes import keep_problems
from ..core.grid.frames import N5Blocks
from ..core.n5.dataset import STANDARD
from ..core.problems import refusal, warning

CODEC: Final = "n5_default"
_COMPRESSORS: Final = frozenset({"gzip", "blosc", "zstd"})
_IN_N5: Final = {
    "numcodecs.bz2": "bzip2",
    "numcodecs.lzma": "xz",
    "numcodecs.zlib": "gzip with useZlib",
    "numcodecs.lz4": "lz4",
    "lz4_block": "lz4",
    "lz4_bare": "lz4",
}
"""N5's names of the compressions that the codec does not support."""
_ADVICE: Final = "Migrate to a new destination, which re-encodes it, or exclude the array."


def in_place_problems(layout: Layout) -> Iterator[Problem]:
    """A refusal for each reason why an N5 array cannot stay in place; otherwise a note about readers."""
    refused = False
    for problem in _refusals(layout):
        refused = True
        yield problem
    if not refused:
        yield warning(
            "readers",
            f"the result can only be read where the codec {CODEC} is installed; "
            "for zarr-python, use `pip install zarr-n5`",
            found="blocks with N5's headers",
            advice="A copy to a new destination can be read everywhere.",
        )


def require_codec() -> None:
    """Raise UsageError if zarr-python lacks the codec here, so the result could not be verified."""
    if not any(point.name == CODEC for point in plugins.registered("zarr.codecs")):
        raise UsageError(
            f"N5 arrays in place need the codec {CODEC}, which is not installed",
            advice="Install it: pip install zarr-n5. Or migrate to a new destination.",
        )


def _refusals(layout: Layout) -> Iterator[Problem]:
    assert isinstance(layout.frame, N5Blocks)
    if layout.data_type.name not in STANDARD:
        yield refusal(
            "unsupported",
            f"N5 and {CODEC} do not support this data type: blocks cannot stay in place",
            found=str(layout.data_type),
            expected=", ".join(sorted(STANDARD)),
            advice=_ADVICE,
        )
    for spec in layout.chain.codecs[layout.chain.middle + 1 :]:
        if spec.name not in _COMPRESSORS:
            yield refusal(
                "unsupported",
                f"{CODEC} does not support this compression: blocks cannot stay in place",
                found=_IN_N5.get(spec.name, str(spec)),
                expected="raw, gzip, blosc or zstd",
                advice=_ADVICE,
            )
            return
    yield from keep_problems(layout.chain, layout.data_type, _ADVICE)
