"""The rekey layer and its rules: keys that differ above and below."""

from .chunk_rules import Chunks
from .layer import Rekey
from .rules import Keys, Prefix, Rule

__all__ = ["Chunks", "Keys", "Prefix", "Rekey", "Rule"]
