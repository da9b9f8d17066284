"""`Rekey`: stores values under other keys, by rules that map keys in both directions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Any, Final, Self, TypeGuard

from zarr.abc.buffer import Buffer, BufferPrototype
from zarr.abc.store import ByteRequest, Store
from zarr.buffer import default_buffer_prototype

from ...base.chunks import DOCUMENTS
from ...base.descend import remove_below
from ...base.transformer import StorageTransformer
from ...core.errors import MetadataError, UsageError
from ...core.json_text import JSON, Extension, JSONObject, excerpt
from .chunk_rules import Chunks
from .rules import Keys, Prefix, Rule, read_json

RULES: Final[dict[str, Any]] = {rule.name: rule for rule in (Prefix, Chunks, Keys)}
"""Rules by name, for JSON."""
AT_ONCE: Final = 32
"""Documents read concurrently."""


class Rekey(StorageTransformer):
    """Stores each value under the key to which the rules map its key.

    `rules` are applied from the array down to the store: rule objects, their JSON, or the name of a JSON file
    with a list of them. A chunk rule without arrays reads them from the store's metadata when the layer is
    bound to its store, and only then: arrays created later are unknown to it.

    A key that the rules cannot map (possible with `Prefix`) is missing on read, and a
    UsageError on write.

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
    short = "rules"
    awaits_only_below = True

    def __init__(self, store: Store | None = None, *, rules: Sequence[Rule | JSON] | str) -> None:
        super().__init__(store)
        items = read_json(rules) if isinstance(rules, str) else rules
        if not isinstance(items, list | tuple):
            raise UsageError("layer 'rekey': rules must be a list", found=excerpt(items))
        self._rules = tuple(parse_rule(rule) for rule in items)
        if store is not None:
            self._learn(store)

    @property
    def options(self) -> dict[str, Any]:
        return {"rules": list(self._rules)}

    @property
    def configuration(self) -> JSONObject:
        """The rules as JSON."""
        return {"rules": [rule.to_json() for rule in self._rules]}

    def bind(self, store: Store) -> Self:
        """Set the store below, and read its arrays for rules that need them."""
        super().bind(store)
        self._learn(store)
        return self

    def _learn(self, store: Store) -> None:
        """Set the arrays of rules that need them, from the lowest rule up."""
        asking = [place for place, rule in enumerate(self._rules) if _lacks_arrays(rule)]
        if not asking:
            return
        from ...system.zarr_internals import sync

        last = asking[-1]
        below = self._rules[last + 1 :]
        documents = sync(documents_of_arrays(store, lambda key: _up(key, below)))
        learned: list[Rule] = []
        for rule in reversed(self._rules[: last + 1]):
            bound = rule
            if _lacks_arrays(rule):
                paths = ((array_of(key), ndim) for key, ndim in documents.items())
                arrays = {path: ndim for path, ndim in paths if path is not None}
                bound = Chunks(above=rule.above, below=rule.below, arrays=arrays)
            learned.append(bound)
            # Higher rules see the documents under the keys that this rule maps them to.
            documents = {name: n for key, n in documents.items() if (name := bound.up(key)) is not None}
        self._rules = (*reversed(learned), *below)

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
        return _up(key, self._rules)

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
        folder: str | None = prefix.strip("/") + "/" if prefix.strip("/") else ""
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


def _lacks_arrays(rule: Rule) -> TypeGuard[Chunks]:
    return isinstance(rule, Chunks) and rule.arrays is None


def _up(key: str, rules: Sequence[Rule]) -> str | None:
    mapped: str | None = key
    for rule in reversed(rules):
        if mapped is None:
            return None
        mapped = rule.up(mapped)
    return mapped


def parse_rule(data: Rule | JSON) -> Rule:
    """Parse a rule; UsageError for an unknown name or option."""
    if isinstance(data, Rule):
        return data
    name, configuration, _ = Extension.from_json(data, "rule of layer 'rekey'", UsageError)
    if (make := RULES.get(name)) is None:
        raise UsageError("layer 'rekey': unknown rule", found=excerpt(data), expected=", ".join(RULES))
    import inspect

    options = [name for name in inspect.signature(make.__init__).parameters if name != "self"]
    if unknown := sorted(set(configuration) - set(options)):
        raise UsageError(f"rule {name!r} has no option {unknown[0]!r}", expected=", ".join(options))
    rule: Rule = make(**configuration)
    return rule


async def documents_of_arrays(
    store: Store, above: Callable[[str], str | None] = lambda key: key
) -> dict[str, int]:
    """Return the documents of all arrays in a store (Zarr v2 and v3) with their numbers of axes.

    `above` maps a stored key to its key above, or to None; the result has the keys above. MetadataError for
    an unreadable document, because its array's chunks could not be mapped.
    """
    keys = {}
    async for key in store.list_prefix(""):
        name = above(key)
        if name is not None and array_of(name) is not None:
            keys[key] = name
    ndims: dict[str, int] = {}
    rest = iter(keys)
    while some := list(islice(rest, AT_ONCE)):
        values = await asyncio.gather(*(store.get(key, default_buffer_prototype()) for key in some))
        for key, value in zip(some, values, strict=True):
            ndim = None if value is None else _axes(key, keys[key], value.to_bytes())
            if ndim is not None:
                ndims[keys[key]] = ndim
    return ndims


def array_of(key: str) -> str | None:
    """Path of the node if this key is a document that may be an array's; None for other keys."""
    folder, _, name = key.rpartition("/")
    return folder if name in DOCUMENTS else None


def _axes(key: str, name: str, text: bytes) -> int | None:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise MetadataError("layer 'rekey': a document is not JSON", key=key, found=str(error)) from None
    if not isinstance(document, dict):
        raise MetadataError(
            "layer 'rekey': a document is not a JSON object", key=key, found=excerpt(document)
        )
    if name.endswith("zarr.json") and document.get("node_type") != "array":
        return None
    shape = document.get("shape")
    if not isinstance(shape, list):
        raise MetadataError("layer 'rekey': an array has no shape", key=key, found=excerpt(shape))
    return len(shape)
