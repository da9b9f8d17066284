"""An archive that is viewed: its documents, and where the bytes of each object come from."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from zarrstack.core.codecs.base import memory
from zarrstack.core.errors import Problem, StorageError, UnsupportedError, UsageError, ZarrstackError
from zarrstack.core.jsons import document

from .changing import Change, Tally, change_for, look_at
from .documents import consolidate
from .formats import describe
from .planning import make_plan
from .plans import ArrayPlan, Plan
from .read_options import ReadOptions
from .recipe import Recipe

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from .archive import Format
    from .storage import Storage
    from .writing import Look

DOCUMENT: Final = "zarr.json"


def document_key(path: str) -> str:
    """The key of a node's document."""
    return f"{path}/{DOCUMENT}" if path else DOCUMENT


class ViewedArray:
    """An array, and how its objects are changed; compiled when one is first asked for."""

    def __init__(self, plan: ArrayPlan) -> None:
        self.plan = plan
        self._compiled: Change | Look | None = None

    @property
    def change(self) -> Change | None:
        """What is done to each object; None where they are shown as they lie."""
        ready = self._ready()
        return ready if isinstance(ready, Change) else None

    def _ready(self) -> Change | Look:
        """What changes objects; what looks at them where nothing changes."""
        if self._compiled is None:
            self._compiled = change_for(self.plan.move, recheck=False) or look_at(self.plan.move)
        return self._compiled

    def changed(self, index: int, key: str, data: bytes) -> bytes | None:
        """The object as it would be stored; ChunkError and CastError with their place."""
        try:
            ready = self._ready()
            if not isinstance(ready, Change):
                ready.check_whole(data)
                return data
            result = ready(index, data, Tally())
        except ZarrstackError as error:
            raise error.at(node=self.plan.path, key=key) from None
        return None if result is None else bytes(memory(result))


class Held(NamedTuple):
    """A key's value lies in the source."""

    key: str
    """Under this key."""
    array: ViewedArray | None = None
    """As an object of this array; None for a file that is no Zarr."""
    number: int = 0
    """Linear index of the object."""

    @property
    def as_it_lies(self) -> bool:
        """Whether it is shown without a change."""
        return self.array is None or self.array.change is None

    def shown(self, data: bytes) -> bytes | None:
        """What is shown for it; ChunkError and CastError with their place."""
        return data if self.array is None else self.array.changed(self.number, self.key, data)


@dataclass(slots=True, kw_only=True)
class ViewedArchive:
    """An archive, described once: every document, and where each object's bytes come from."""

    storage: Storage
    store: Store
    """The same place for asynchronous reading."""
    plan: Plan
    documents: dict[str, bytes]
    arrays: dict[str, ViewedArray]
    children: dict[str, list[str]]
    """Path of a node -> names right below it, its document's among them."""
    refused: dict[str, tuple[Problem, ...]]
    files: frozenset[str]
    """Keys of files that are no Zarr and go along."""
    follow_links: bool

    @classmethod
    def of(cls, storage: Storage, format: Format | None, reading: ReadOptions, recipe: Recipe) -> Self:
        """Describe a place; UsageError where there is no archive, StorageError."""
        archive = describe(storage, format=format, options=reading)
        plan, _ = make_plan(archive, storage, recipe, destination="a view", reading=reading, listing=False)
        for array in plan.arrays:
            if array.move.block_shape is not None:
                raise UsageError(
                    "a view shows the chunks that there are, one by one",
                    node=array.path,
                    found=f"a recipe with other objects ({array.route.reason})",
                    advice="Leave chunks and shards out of the recipe, or migrate the archive.",
                )
        nodes = {node.path: node.document for node in plan.published}
        if plan.consolidate:
            nodes[""] = consolidate(nodes)
        children: dict[str, list[str]] = {}
        for path in nodes:
            children.setdefault(path, []).append(DOCUMENT)
            if path:
                above, _, name = path.rpartition("/")
                children.setdefault(above, []).append(name)
        return cls(
            storage=storage,
            store=storage.zarr_store(),
            plan=plan,
            documents={document_key(path): document(content) for path, content in nodes.items()},
            arrays={array.path: ViewedArray(array) for array in plan.arrays},
            children=children,
            refused={refusal.path: refusal.problems for refusal in plan.refusals},
            files=frozenset(key for group in plan.groups for key in group.files),
            follow_links=reading.follow_links,
        )

    def array_above(self, path: str) -> ViewedArray | None:
        """The array that a path is, or lies below."""
        while True:
            if path in self.arrays:
                return self.arrays[path]
            if not path:
                return None
            path = path.rpartition("/")[0]

    def find(self, key: str) -> bytes | Held | None:
        """A document, or where in the source a key's value lies; StorageError where that may not be read."""
        content = self.documents.get(key)
        if content is not None:
            return content
        held = Held(key) if key in self.files else self._chunk(key)
        if held is None or self.follow_links:
            return held
        target = self.storage.link(held.key)
        if target is not None and self.storage.leaves_root(target):
            if not os.path.exists(target):
                self.storage.require_absent(held.key)
            raise StorageError(
                "a link leads out of the archive", key=held.key, advice="Use follow_links if that is meant."
            )
        return held

    def _chunk(self, key: str) -> Held | None:
        above, _, name = key.rpartition("/")
        if name == DOCUMENT:
            self.refuse(above)
            return None
        array = self.array_above(above)
        if array is None:
            return None
        target, source = array.plan.destination, array.plan.source
        rest = key.removeprefix(target.prefix(array.plan.path))
        place = target.keys.coordinates(rest, len(target.shape))
        index = None if place is None else target.objects.index(place)
        if place is None or index is None:
            return None
        return Held(source.key(array.plan.path, place), array, index)

    def refuse(self, path: str) -> None:
        """Raise what keeps a node back, if something does."""
        problems = [p for p in self.refused.get(path, ()) if p.severity == "refusal"]
        if problems:
            first = problems[0]
            raise UnsupportedError(
                first.message,
                node=path,
                key=first.key,
                found=first.found,
                expected=first.expected,
                advice=first.advice,
            )
