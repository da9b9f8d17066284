"""zarrs (Rust) through its codec pipeline for zarr-python: chunks are decoded by zarrs alone.

Where zarrs does not support an array, the pipeline warns and lets zarr-python decode
(zarrs 0.2.3, `zarrs/pipeline.py`); here that counts as not reading it.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import zarr
import zarrs  # noqa: F401 - makes its pipeline known
from tests.end_to_end.readers.base import CannotRead, Seen, plain


def read(root: Path, path: str) -> Seen:
    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}), warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        warnings.filterwarnings("ignore", category=zarr.errors.UnstableSpecificationWarning)
        warnings.filterwarnings("ignore", message="Numcodecs codecs are not in the Zarr version 3")
        try:
            array = zarr.open_array(root / path, mode="r", zarr_format=3)
            values = array[...]
        except UserWarning as warning:
            raise CannotRead(str(warning)) from warning
    metadata = array.metadata
    return Seen(
        reader="zarrs",
        dtype=str(metadata.data_type),
        values=plain(values, array.shape, array.dtype),
        attributes=dict(metadata.attributes),
        fill=metadata.fill_value,
        dimension_names=metadata.dimension_names,
    )
