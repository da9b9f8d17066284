"""The rekey layer and its rules: keys that differ above and below."""

from .layer import Rekey
from .rules import Chunks, Prefix, Rule

__all__ = ["Chunks", "Prefix", "Rekey", "Rule"]
