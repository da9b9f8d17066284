"""The conformance suite of layers and stacks."""

from .operations import KEYS, compare
from .suite import PIPELINES, LayerTests, Place

__all__ = ["KEYS", "PIPELINES", "LayerTests", "Place", "compare"]
