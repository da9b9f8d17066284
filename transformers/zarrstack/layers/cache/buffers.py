"""Values as immutable bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
from zarr.core.buffer import Buffer


def immutable(value: Buffer) -> bytes:
    """The bytes of a value, copied unless it is one whole `bytes` object, as stores and codecs return it."""
    array = value.as_numpy_array()
    owner: Any = array.base
    while type(owner) is np.ndarray:
        owner = owner.base
    if type(owner) is bytes and len(owner) == array.nbytes and array.flags.c_contiguous:
        return owner
    return array.tobytes()
