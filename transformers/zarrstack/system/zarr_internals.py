"""What both packages use of zarr-python that has no public name: the only imports from `zarr.core`.

tests/zarrstack/system/test_zarr_internals.py checks what each is expected to do, with every version of zarr.
"""

from __future__ import annotations

from typing import Final

from zarr.core import codec_pipeline
from zarr.core.array_spec import ArraySpec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.core.group import GroupMetadata
from zarr.core.metadata import ArrayV2Metadata, ArrayV3Metadata
from zarr.core.sync import loop as zarr_loop
from zarr.core.sync import sync
from zarr.storage._common import make_store, make_store_path

__all__ = [
    "PIPELINES",
    "ArraySpec",
    "ArrayV2Metadata",
    "ArrayV3Metadata",
    "BatchedCodecPipeline",
    "GroupMetadata",
    "make_store",
    "make_store_path",
    "sync",
    "zarr_loop",
]

PIPELINES: Final = {
    name: f"zarr.core.codec_pipeline.{kind}"
    for name, kind in {"batched": "BatchedCodecPipeline", "fused": "FusedCodecPipeline"}.items()
    if hasattr(codec_pipeline, kind)
}
"""The codec pipelines of the installed zarr by name: `batched`, and from 3.3 on `fused`."""
