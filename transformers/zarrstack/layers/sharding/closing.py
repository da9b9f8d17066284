"""Open shards are stored when a store is closed without a way to wait, and when the interpreter exits."""

from __future__ import annotations

import asyncio
import logging
import threading
import warnings
from collections.abc import Coroutine, Hashable
from typing import Any

from zarr.core.sync import sync

from ...core.errors import UsageError
from .buffer import flush, open_arrays, open_shards
from .locks import may_block

logger = logging.getLogger("zarrstack.sharding")


def flush_sync(array: Hashable) -> None:
    """Synchronous `flush`; UsageError in an event loop that cannot wait for it."""
    if not open_shards(array):
        return
    if not may_block():
        raise UsageError(
            "layer 'sharding': chunks wait to be written, and this event loop cannot wait for that",
            advice="Await `store.flush()` first.",
        )
    sync(flush(array))


_later: set[asyncio.Task[None]] = set()


def later(work: Coroutine[Any, Any, None]) -> None:
    """Close a store in the running event loop, which cannot wait for it."""
    task = asyncio.ensure_future(work)
    _later.add(task)
    task.add_done_callback(_ended)


def _ended(task: asyncio.Task[None]) -> None:
    _later.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.warning("layer 'sharding': a shard could not be written at close(): %r", error)


def _at_exit() -> None:
    """Store what waits when the interpreter exits, and warn of what cannot be stored."""
    failed: set[Hashable] = set()
    while arrays := [array for array in open_arrays() if array not in failed]:
        for array in arrays:
            try:
                sync(flush(array))
            except Exception as error:  # noqa: BLE001 - reported
                failed.add(array)
                for waiting in open_shards(array):
                    warnings.warn(
                        f"zarrstack: {len(waiting.changes)} chunks of the shard {waiting.shard.key!r} were "
                        f"never written to {waiting.shard.store}: {error!r}",
                        RuntimeWarning,
                        stacklevel=1,
                    )


# Before concurrent.futures ends its threads, which LocalStore needs; `atexit` runs after that. There is no
# public name for it (Python 3.11 to 3.14).
threading._register_atexit(_at_exit)  # type: ignore[attr-defined]  # noqa: SLF001
