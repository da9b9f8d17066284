"""The conformance suite of layers and stacks."""

from ..system.zarr_internals import PIPELINES
from .operations import KEYS, compare
from .suite import LayerTests, Place

__all__ = ["KEYS", "PIPELINES", "LayerTests", "Place", "compare"]
