"""Writes the test vectors of docs/transformers/stored-format.md: `python -m tests.zarrstack.layers.vectors`.

It follows that page and imports nothing of zarrstack, so that the vectors are evidence about it.
"""

from __future__ import annotations

import json
import struct
from math import ceil
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[3] / "docs" / "transformers" / "extensions"
FILL = 255
MISSING = 2**64 - 1
LITTLE, BIG = ({"name": "bytes", "configuration": {"endian": endian}} for endian in ("little", "big"))


def crc32c(data):
    """CRC-32C (Castagnoli), bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def sharding(*counts, **options):
    return {"name": "zarrstack.sharding", "configuration": {"chunks_per_shard": [*counts], **options}}


def checksum(**options):
    return {"name": "zarrstack.checksum", **({"configuration": options} if options else {})}


class Array:
    """An array of uint8 without compression, whose elements count up from 1 unless `chunks` are given."""

    def __init__(self, shape, sizes, *layers, keys="default /", path="a", absent=(), chunks=None):
        name, separator = keys.split()
        self.path, self.head = path, ["c"] if name == "default" else []
        self.separator = separator
        self.grid = [*np.ndindex(*(ceil(n / size) for n, size in zip(shape, sizes, strict=True)))]
        self.document = {
            "zarr_format": 3,
            "node_type": "array",
            "shape": shape,
            "data_type": "uint8",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": sizes}},
            "chunk_key_encoding": {"name": name, "configuration": {"separator": separator}},
            "fill_value": FILL,
            "codecs": [{"name": "bytes"}],
            "attributes": {},
            "storage_transformers": [*layers],
            "zarrstack.storage_transformers": {"must_understand": True},
        }
        whole = np.full([ceil(n / size) * size for n, size in zip(shape, sizes, strict=True)], FILL, "u1")
        inside = tuple(map(slice, shape))
        whole[inside] = np.arange(1, 1 + whole[inside].size).reshape(shape)
        self.chunks = {}
        for place in self.grid:
            region = tuple(slice(n * size, (n + 1) * size) for n, size in zip(place, sizes, strict=True))
            data = (
                whole[region].tobytes()
                if chunks is None and place not in absent
                else (chunks or {}).get(place)
            )
            if data is not None:
                self.chunks[place] = data
            fits = data is not None and len(data) == whole[region].size
            whole[region] = np.frombuffer(data, "u1").reshape(sizes) if fits else FILL
        odd = any(len(data) != np.prod(sizes) for data in self.chunks.values())
        self.values = None if odd else whole[inside].ravel().tolist()

    def key(self, place):
        name = self.separator.join([*self.head, *map(str, place)]) or "0"
        return f"{self.path}/{name}" if self.path else name

    def shards(self, counts, **form):
        """The shards of its chunks, as writers should write them."""
        members = {}
        for place, data in self.chunks.items():
            where, inner = zip(*map(divmod, place, counts), strict=True)
            members.setdefault(where, {})[inner] = data
        return {self.key(where): shard(counts, chunks, **form) for where, chunks in members.items()}

    def vector(self, name, objects, *, exact=False):
        """What is stored, and what is read from it."""
        chunks = {
            self.key(place): self.chunks[place].hex() if place in self.chunks else None for place in self.grid
        }
        values = {} if self.values is None else {"values": self.values}
        return self._about(name, objects) | {"chunks": chunks} | values | {"exact": exact}

    def damaged(self, name, objects, *refused):
        """What is stored, and the chunks that must be refused."""
        keys = [self.key(place) for place in refused or self.grid]
        return self._about(f"damage: {name}", objects) | {"refused": keys}

    def _about(self, name, objects):
        stored = {key: data.hex() for key, data in objects.items() if data is not None}
        return {"name": name, "path": self.path, "document": self.document, "objects": stored}


def index(counts, places, *, endian="<", check=False):
    """The index of a shard, from offset and length of each chunk."""
    pairs = (places.get(place, (MISSING, MISSING)) for place in np.ndindex(*counts))
    data = b"".join(struct.pack(endian + "QQ", *pair) for pair in pairs)
    return data + struct.pack("<I", crc32c(data)) if check else data


def shard(counts, chunks, *, start=False, **form):
    """A shard as writers should write it."""
    offset = len(index(counts, {}, **form)) if start else 0
    body, places = b"", {}
    for place in sorted(chunks):
        places[place] = (offset + len(body), len(chunks[place]))
        body += chunks[place]
    return index(counts, places, **form) + body if start else body + index(counts, places, **form)


def sharding_vectors():
    plain = Array([4, 4], [2, 2], sharding(2, 2), absent=[(0, 1)])
    root = Array([4, 4], [2, 2], sharding(2, 2), absent=[(0, 1)], path="")
    edge = Array([5, 3], [2, 1], sharding(2, 2), absent=[(2, 2)])
    at_start = sharding(2, index_codecs=[BIG, {"name": "crc32c"}], index_location="start")
    start, form = Array([6], [2], at_start, absent=[(1,)]), {"start": True, "endian": ">", "check": True}
    ratified = Array([2, 4], [1, 2], sharding(2, 2, index_codecs=[LITTLE, "crc32c"]))
    v2 = Array([4, 4], [2, 2], sharding(2), keys="v2 .", absent=[(1, 1)])
    scalar = Array([], [], sharding(1))
    twice = Array([8], [2], sharding(2), sharding(2))
    inner = {(i,): shard([2], {(j,): twice.chunks[(2 * i + j,)] for j in (0, 1)}) for i in (0, 1)}
    nothing = Array([4, 4], [2, 2], sharding(2, 2), chunks={})
    data = bytes(range(1, 9))
    line = Array([8], [2], sharding(4), chunks={(0,): data[6:8], (1,): data[1:4], (2,): b""})
    loose = {(0,): (6, 2), (1,): (1, 3), (2,): (5, 0)}
    checked = shard([2], {(0,): b"\x01\x02"}, **form)
    flipped = checked[:35] + bytes([checked[35] ^ 1]) + checked[36:]
    into = index([2], {(0,): (35, 2)}, endian=">", check=True) + b"\x01"
    vectors = [
        plain.vector("a chunk is absent", plain.shards([2, 2]), exact=True),
        edge.vector("chunks and shards at the edges, a shard is absent", edge.shards([2, 2]), exact=True),
        start.vector(
            "index at the start, big-endian, with a checksum", start.shards([2], **form), exact=True
        ),
        ratified.vector("index with a checksum at the end", ratified.shards([2, 2], check=True), exact=True),
        v2.vector("keys of v2; a missing trailing number is 1", v2.shards([2, 1]), exact=True),
        scalar.vector("an array without axes", {"a/c": shard([], {(): b"\x01"})}, exact=True),
        twice.vector("shards of shards", {"a/c/0": shard([2], inner)}, exact=True),
        nothing.vector("no shard at all", {}, exact=True),
        root.vector("an array at the root", root.shards([2, 2]), exact=True),
        nothing.vector("a shard without chunks", {"a/c/0/0": index([2, 2], {})}),
        line.vector("another order, a gap, and a chunk of length 0", {"a/c/0": data + index([4], loose)}),
        line.damaged("shorter than its index", {"a/c/0": index([4], {})[1:]}),
        start.damaged("a wrong checksum of the index", {"a/c/0": flipped}, (0,), (1,)),
        start.damaged("cut behind an index at the start", {"a/c/0": checked[:-1]}, (0,)),
        start.damaged("a chunk in an index at the start", {"a/c/0": into}, (0,)),
    ]
    ends = {(0,): (0, 2), (1,): (2, 2), (2,): (4, 2), (3,): (6, 2)}
    entries = {
        "a chunk that is half missing": ((1,), (2, MISSING)),
        "chunks that overlap": ((1,), (1, 2)),
        "a chunk behind the end": ((3,), (70, 9)),
        "a chunk that reaches into the index": ((3,), (6, 3)),
        "a sum beyond 64 bits": ((3,), (2**64 - 8, 16)),
    }
    for name, (place, entry) in entries.items():
        stored = {"a/c/0": data + index([4], {**ends, place: entry})}
        vectors.append(line.damaged(name, stored, *([place] if place == (3,) else ())))
    return vectors


def state(data):
    return b"absent\n" if data is None else f"crc32c {crc32c(data):08x} {len(data)}\n".encode()


def recorded(objects):
    """Objects with their records."""
    return objects | {f"{key}.crc32c": state(data) for key, data in objects.items()}


def checksum_vectors():
    old, new = b"\x01\x02", b"\x07\x07"
    plain = Array([6], [2], checksum(), absent=[(1,)])
    above = Array([8], [2], checksum(), sharding(2), absent=[(2,), (3,)])
    below = Array([8], [2], sharding(2), checksum(), absent=[(2,), (3,)])
    passing = Array([6], [2], checksum(unknown="pass"), chunks={(0,): old})
    two = Array([6], [2], checksum(), chunks={(0,): old, (1,): new})
    empty = Array([6], [2], checksum(), chunks={(0,): b""})
    objects = {plain.key(place): data for place, data in plain.chunks.items()}
    records = {f"{above.key(place)}.crc32c": state(data) for place, data in above.chunks.items()}
    both, first = state(new) + state(old), state(new) + state(None)
    during = {"a/c/0": old, "a/c/0.crc32c": both, "a/c/1": new, "a/c/1.crc32c": both, "a/c/2.crc32c": first}
    vectors = [
        plain.vector("a chunk is absent", recorded(objects), exact=True),
        above.vector("above shards: a record for each chunk", above.shards([2]) | records, exact=True),
        below.vector("below shards: a record for each shard", recorded(below.shards([2])), exact=True),
        empty.vector("an empty object", recorded({"a/c/0": b""}), exact=True),
        two.vector("writes that were interrupted", during),
        passing.vector("an object without a record may pass", {"a/c/0": old}),
    ]
    line = state(old)
    damages = {
        "another byte": (b"\x01\x03", line),
        "cut short": (old[:1], line),
        "longer": (old + b"\x00", line),
        "lost": (None, line),
        "no record": (old, None),
        "an object where there should be none": (old, b"absent\n"),
        "an empty record": (old, b""),
        "a record without a line feed": (old, line[:-1]),
        "a record with another line end": (old, line[:-1] + b"\r\n"),
        "a record in capitals": (old, line[:7] + line[7:15].upper() + line[15:]),
        "a record with a leading zero": (old, line.replace(b" 2", b" 02")),
        "a state that cannot be read behind one that fits": (old, line + b"crc32c 0 0\n"),
    }
    for name, (stored, record) in damages.items():
        vectors.append(plain.damaged(name, {"a/c/0": stored, "a/c/0.crc32c": record}, (0,)))
    wrong = {"a/c/0": new, "a/c/0.crc32c": line}
    return [*vectors, passing.damaged("another byte, where others may pass", wrong, (0,))]


FILES = {
    "zarrstack.sharding/vectors.json": sharding_vectors,
    "zarrstack.checksum/vectors.json": checksum_vectors,
}


def text(vectors):
    """JSON with a line for each member of a vector."""
    members = [[f"  {json.dumps(name)}: {json.dumps(each[name])}" for name in each] for each in vectors]
    return "[\n" + ",\n".join(" {\n" + ",\n".join(lines) + "\n }" for lines in members) + "\n]\n"


if __name__ == "__main__":
    for name, vectors in FILES.items():
        (FOLDER / name).write_text(text(vectors()), encoding="utf-8")
