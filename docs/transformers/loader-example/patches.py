from typing import Any

import numpy as np
import zarr
from zarr.abc.store import Store


class Patches:
    """The images of a stack, by number: a map-style dataset."""

    def __init__(self, store: Store) -> None:
        self.images: Any = zarr.open_array(store, mode="r", zarr_format=3)

    def __len__(self) -> int:
        return int(self.images.shape[0])

    def __getitem__(self, number: int) -> np.ndarray:
        return np.asarray(self.images[number])


received: list[Patches] = []
"""The dataset of a worker."""


def start(dataset: Patches) -> None:
    """Keep the dataset that a worker receives."""
    received.append(dataset)


def total(number: int) -> int:
    """The sum of one image, in place of a training step."""
    return int(received[0][number].sum())
