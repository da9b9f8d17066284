"""Arrays that cannot be opened, left out of their groups so that their siblings can be listed.

zarr-python opens each name that a store lists in a group; one that raises an error makes `members()` and
`tree()` of the group fail, and every program that lists it, such as xarray (3.1.6 and 3.4.2).
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable

from zarr.core.config import config

from ...base.array_documents import DOCUMENT, arrays_in, consolidated_members, put_together
from ...core.json_text import JSONObject
from ...core.paths import join
from .described import DescribedArray


class Members:
    """The members of groups; `find` returns the array at a path, None if there is none."""

    def __init__(self, find: Callable[[str], Awaitable[DescribedArray | None]]) -> None:
        self._find = find
        self._reported: set[str] = set()

    async def openable(self, folder: str, names: AsyncIterator[str]) -> list[str]:
        """The names in a folder, without those of arrays that cannot be opened."""
        all_names = [name async for name in names]
        turn = asyncio.Semaphore(config.get("async.concurrency") or len(all_names) or 1)

        async def is_openable(name: str) -> bool:
            async with turn:
                return name == DOCUMENT or not await self._is_refused(join(folder, name))

        marks = await asyncio.gather(*map(is_openable, all_names))
        return [name for name, keep in zip(all_names, marks, strict=True) if keep]

    async def leave_out(self, document: JSONObject, path: str) -> bool:
        """Remove such arrays from a group's consolidated metadata; return whether there were any."""
        paths = [where for where, _ in arrays_in(document, path) if where != path]
        refused = {where for where in paths if await self._is_refused(where)}
        for where, members in consolidated_members(document, path):
            for name in [name for name in members if join(where, name) in refused]:
                del members[name]
        return bool(refused)

    async def keep(
        self, document: JSONObject, path: str, stored: Callable[[str], Awaitable[JSONObject | None]]
    ) -> bool:
        """Put such arrays back into consolidated metadata that is written without them."""
        blocks = dict(consolidated_members(document, path))
        before = await stored(path) if path in blocks else None
        if before is None:
            return False
        put_together(before)
        written = {where for where, _ in arrays_in(document, path)}
        changed = False
        for where, member in arrays_in(before, path):
            if where not in written and await self._is_refused(where):
                blocks[path][where[len(path) :].lstrip("/")] = member
                changed = True
        return changed

    async def _is_refused(self, path: str) -> bool:
        array = await self._find(path)
        refusal = None if array is None else array.refusal
        if refusal is None:
            return False
        if path not in self._reported:
            self._reported.add(path)
            warnings.warn(
                f"the array {path!r} cannot be opened and is left out of its group: {refusal}",
                UserWarning,
                stacklevel=2,
            )
        return True
