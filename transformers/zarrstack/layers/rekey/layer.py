"""`Rekey`: stores values under other keys, by rules that map keys in both directions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store

from ...base.descend import remove_below
from ...base.transformer import StorageTransformer
from ...core.errors import UsageError
from ...core.json_text import JSON, JSONObject, excerpt
from ...core.paths import prefix_of
from .rules import Rule, parse_rule


class Rekey(StorageTransformer):
    """Stores each value under the key to which the rules map its key.

    `rules` are applied from the array down to the store: rule objects or their JSON. A key that they cannot
    map is missing on read, and a UsageError on write.

    Examples
    --------
    >>> from zarrstack.layers.rekey import Prefix
    >>> below = {}
    >>> store = zarrstack.stack(MemoryStore(below), zarrstack.Rekey(rules=[Prefix(below="archive")]))
    >>> array = zarr.create_array(store, name="a", shape=(4,), dtype="i4")
    >>> sorted(below)
    ['archive/a/zarr.json', 'archive/zarr.json']
    """

    name = "rekey"
    awaits_only_below = True

    def __init__(self, store: Store | None = None, *, rules: Sequence[Rule | JSON]) -> None:
        super().__init__(store)
        if not isinstance(rules, list | tuple):
            raise UsageError("layer 'rekey': rules must be a list", found=excerpt(rules))
        self._rules = tuple(parse_rule(rule) for rule in rules)
        self._record_options(rules=list(self._rules))

    @property
    def configuration(self) -> JSONObject:
        return {"rules": [rule.to_json() for rule in self._rules]}

    # -- keys -----------------------------------------------------------------------------------

    def down(self, key: str) -> str | None:
        """Map a key to the store below; None if the rules cannot map it."""
        mapped: str | None = key
        for rule in self._rules:
            if mapped is None:
                return None
            mapped = rule.down(mapped)
        return mapped

    def up(self, key: str) -> str | None:
        """Map a key of the store below to the one above; None if the rules cannot map it."""
        mapped: str | None = key
        for rule in reversed(self._rules):
            if mapped is None:
                return None
            mapped = rule.up(mapped)
        return mapped

    def _place(self, key: str) -> str:
        place = self.down(key)
        if place is None:
            raise UsageError(
                f"layer {self.name!r}: the rules do not map this key",
                key=key,
                found=", ".join(map(repr, self._rules)),
            )
        return place

    def _cover(self, prefix: str) -> list[str]:
        """Disjoint prefixes to list below for the keys above with this prefix."""
        prefixes: tuple[str, ...] = (prefix,)
        for rule in self._rules:
            prefixes = tuple(dict.fromkeys(below for each in prefixes for below in rule.cover(each)))
        return [
            one for one in prefixes if not any(one != other and one.startswith(other) for other in prefixes)
        ]

    def _folder_below(self, prefix: str, *, same_names: bool = False) -> str | None:
        """Path of the folder below that holds exactly the keys of this folder, or None."""
        folder: str | None = prefix_of(prefix.strip("/"))
        for rule in self._rules:
            if folder is None or (same_names and rule.renames(folder)):
                return None
            folder = rule.image(folder)
        return None if folder is None else folder.rstrip("/")

    # -- values ---------------------------------------------------------------------------------

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        place = self.down(key)
        return None if place is None else await self._store.get(place, prototype, byte_range)

    async def set(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._store.set(self._place(key), value)

    async def delete(self, key: str) -> None:
        self._check_writable()
        place = self.down(key)
        if place is not None:
            await self._store.delete(place)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        self._check_writable()
        await self._store.set_if_not_exists(self._place(key), value)

    async def exists(self, key: str) -> bool:
        place = self.down(key)
        return place is not None and await self._store.exists(place)

    async def getsize(self, key: str) -> int:
        place = self.down(key)
        if place is None:
            raise FileNotFoundError(key)
        return await self._store.getsize(place)

    # -- listing --------------------------------------------------------------------------------

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for below in self._cover(prefix):
            async for place in self._store.list_prefix(below):
                key = self.up(place)
                if key is not None and key.startswith(prefix):
                    yield key

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        same = self._folder_below(prefix, same_names=True)
        return self._list_dir(prefix) if same is None else self._store.list_dir(same)

    async def is_empty(self, prefix: str) -> bool:
        same = self._folder_below(prefix)
        return await super().is_empty(prefix) if same is None else await self._store.is_empty(same)

    async def delete_dir(self, prefix: str) -> None:
        self._check_writable()
        same = self._folder_below(prefix)
        if same is not None:
            await remove_below(self._store, same)
        else:
            await super().delete_dir(prefix)
