"""Archives of every format that change at random, by their files: what writers do between two updates."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import zarrlift

Chunk = tuple[int, ...]
_CLOCK = 10**9


class ChangingArchive:
    """A directory that holds an archive."""

    def __init__(self, path: Path, seed: object) -> None:
        self.path = path
        self.chance = random.Random(str(seed))
        self._time = 1_700_000_000 * _CLOCK

    def chunks(self, node: zarrlift.ArrayNode) -> Iterator[tuple[Chunk, Path, bool]]:
        """(position, file, whether it is there) of each chunk."""
        layout = node.layout
        assert layout is not None
        for number in range(layout.objects.total):
            place = layout.objects.coordinates(number)
            file = self.path / layout.key(node.path, place)
            yield place, file, file.is_file()

    def write(self, file: Path, content: bytes) -> None:
        """Each write has a time of its own, however fast the test is."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        self._time += _CLOCK
        os.utime(file, ns=(self._time, self._time))

    def arrays(self) -> list[zarrlift.ArrayNode]:
        nodes = zarrlift.inspect(self.path).nodes
        return [node for node in nodes if isinstance(node, zarrlift.ArrayNode) and node.layout is not None]

    def change(self) -> str:
        """One change; gives its name."""
        kinds = [self.rewrite, self.rewrite, self.delete, self.fill, self.attributes, self.longer]
        kinds += [self.shorter, self.come, self.go]
        kind = self.chance.choice(kinds)
        arrays = self.arrays()
        kind(self.chance.choice(arrays))
        return kind.__name__

    def rewrite(self, node: zarrlift.ArrayNode) -> None:
        """Some chunks become as another one is."""
        there = [(place, file) for place, file, exists in self.chunks(node) if exists]
        for place, file in self.chance.sample(there, min(len(there), self.chance.randrange(1, 4))):
            others = [other for at, other in there if extent(node, at) == extent(node, place)]
            self.write(file, self.chance.choice(others).read_bytes())

    def delete(self, node: zarrlift.ArrayNode) -> None:
        there = [file for _, file, exists in self.chunks(node) if exists]
        for file in self.chance.sample(there, min(len(there), self.chance.randrange(1, 3))):
            file.unlink()

    def fill(self, node: zarrlift.ArrayNode) -> None:
        """Missing chunks come."""
        found = list(self.chunks(node))
        for place, file, exists in found:
            same = [(other, there) for at, other, there in found if extent(node, at) == extent(node, place)]
            others = [other for other, there in same if there]
            if not exists and others and self.chance.random() < 0.5:
                self.write(file, others[0].read_bytes())

    def document(self, node: zarrlift.ArrayNode) -> Path:
        return self.path / node.documents[0].key

    def attributes(self, node: zarrlift.ArrayNode) -> None:
        name = {"meta": "attrs", ".zarray": ".zattrs"}.get(self.document(node).name)
        file = self.document(node) if name is None else self.document(node).with_name(name)
        content = json.loads(file.read_text()) if file.exists() else {}
        draft = "chunk_grid" in content
        (content.setdefault("attributes", {}) if draft else content)["mood"] = self.chance.random()
        self.write(file, json.dumps(content).encode())

    def longer(self, node: zarrlift.ArrayNode) -> None:
        self._resize(node, 1)

    def shorter(self, node: zarrlift.ArrayNode) -> None:
        self._resize(node, -1)

    def _resize(self, node: zarrlift.ArrayNode, way: int) -> None:
        """Along one axis, by whole chunks or less; chunks outside go, as writers remove them."""
        layout = node.layout
        assert layout is not None
        file = self.document(node)
        content = json.loads(file.read_text())
        name = "dimensions" if "dimensions" in content else "shape"
        if not layout.shape or not all(layout.shape):
            return
        axis = self.chance.randrange(len(layout.shape))
        chunk = layout.object_shape[axis]
        n5 = name == "dimensions"  # of which shorter blocks lie at the edges only
        step = chunk if n5 else self.chance.randrange(1, 2 * chunk + 1)
        if n5 and layout.shape[axis] % chunk:
            return
        length = layout.shape[axis] + way * step
        if length <= 0:
            return
        for place, chunk_file, exists in self.chunks(node):
            if exists and place[axis] * chunk >= length:
                chunk_file.unlink()
        at = len(layout.shape) - 1 - axis if n5 else axis
        content[name][at] = length
        self.write(file, json.dumps(content).encode())

    def come(self, node: zarrlift.ArrayNode) -> None:
        """A copy of an array."""
        name = f"{node.path}_{self.chance.randrange(10**6)}"
        if self.document(node).name.endswith(".array.json"):
            shutil.copy2(self.document(node), self.path / f"meta/{name}.array.json")
            if (self.path / "data" / node.path).is_dir():
                shutil.copytree(self.path / "data" / node.path, self.path / "data" / name)
        elif node.path:
            shutil.copytree(self.path / node.path, self.path / name)

    def go(self, node: zarrlift.ArrayNode) -> None:
        if len(self.arrays()) > 2 and node.path:
            self.document(node).unlink()
            layout = node.layout
            assert layout is not None
            shutil.rmtree(self.path / layout.prefix(node.path), ignore_errors=True)


def extent(node: zarrlift.ArrayNode, place: Chunk) -> tuple[slice, ...]:
    """The size of a chunk within its array: chunks of the same size may stand for each other."""
    assert node.layout is not None
    return node.layout.objects.valid(place)
