"""The conformance suite of layers and stacks."""

from .comparison import compare
from .operations import KEYS
from .suite import PIPELINES, LayerTests, Place

__all__ = ["KEYS", "PIPELINES", "LayerTests", "Place", "compare"]
