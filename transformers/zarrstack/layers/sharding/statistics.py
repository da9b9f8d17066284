"""What the buffer of a sharding layer has done."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingStatistics:
    """Statistics of the buffer of a sharding layer since its creation."""

    memory_bytes: int
    """Its budget; 0 without a buffer."""
    open_shards: int
    """Shards with changes that are not stored yet."""
    open_bytes: int
    """What these changes take, counting 250 bytes for each besides its value, and 2,200 for each shard."""
    whole: int
    """Shards stored with all their chunks: written once, and not read."""
    partial: int
    """Shards stored with some of their chunks: read, merged and rewritten."""
    evictions: int
    """Of `partial`, those stored because the budget was full."""
    warning: str | None
    """What to change if shards are written more than once for lack of memory."""
