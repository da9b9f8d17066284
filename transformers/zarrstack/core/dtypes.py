"""v3 data types <-> numpy, and fill values both ways. (Skeleton of the contract; see helpers.)"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .jsons import JSON


@dataclass(frozen=True, slots=True)
class DataType:
    """A v3 data type as data: its name and configuration."""

    name: str
    configuration: Mapping[str, JSON] = field(default_factory=dict)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The native-endian numpy type its values have in memory; `object` for string, bytes, object."""
        raise NotImplementedError
