"""An archive of so many tiny chunks that the command makes copies of its process for them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.job_archives import tree

import zarrlift

SIDE = 50


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2,500 chunks of a few bytes: as many as are worth a fork."""
    path = tmp_path_factory.mktemp("tiny") / "source.zarr"
    path.mkdir()
    document = {
        "zarr_format": 2, "shape": [SIDE, SIDE], "chunks": [1, 1], "dtype": "<u2", "order": "C",
        "fill_value": 0, "compressor": None, "filters": None,
    }  # fmt: skip
    (path / ".zarray").write_text(json.dumps(document))
    for row in range(SIDE):
        for column in range(SIDE):
            (path / f"{row}.{column}").write_bytes(np.uint16(row * SIDE + column).tobytes())
    return path


@pytest.fixture(scope="session")
def tiny_result(tiny: Path) -> dict[str, bytes]:
    """The result of threads, which a library uses."""
    destination = tiny.parent / "expected.zarr"
    assert zarrlift.migrate(tiny, destination).ok
    return tree(destination)
