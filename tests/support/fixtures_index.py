"""Every fixture and what the writer that wrote it reads back.

    for array in arrays(): ...          # every expected array; `array.id` is readable
    archive("zarr-2.18/dtypes")         # one archive by name
    archive("zarr-2.18/dtypes")["C/le_i4"].values

    bad_cases()                         # damaged archives, with what is wrong where

These are Zarr v2. The other formats are asked for by name, and their archives' names begin with it:

    for array in arrays(format="n5"): ...
    archive("zarr_v1/zarr-1.1/arrays")
    bad_cases("zarr_v3_draft")

Used with pytest as `@pytest.mark.parametrize("array", arrays(), ids=str)`.
How the expectations are written is said in `fixtures/writers/recording.py`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tests.support.unpacking import FIXTURES, unpacked

Format = Literal["zarr_v2", "n5", "zarr_v1", "zarr_v3_draft"]
FORMATS: tuple[Format, ...] = ("zarr_v2", "n5", "zarr_v1", "zarr_v3_draft")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedArray:
    """One array of a fixture, as the old writer reads it."""

    archive: ExpectedArchive = field(repr=False)
    path: str
    """Inside the archive; "" for an array at the root."""
    dtype: np.dtype[Any]
    """As stored: with its byte order, and the gaps of aligned structs."""
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    order: Literal["C", "F"]
    attributes: Mapping[str, Any]
    """May hold NaN and infinities."""
    stored_chunks: int
    """How many chunks have a key."""
    unreadable: str | None = None
    """Why the old writer itself cannot read the array; None if it can. Then there are no values."""
    refused_by_writer: str | None = None
    """Why the writer refuses a document that was edited by hand; the values are those of before the edit."""
    needs: str | None = None
    """The option without which the array is refused by name; None mostly."""
    _entry: Mapping[str, Any] = field(repr=False, default_factory=dict)

    @property
    def id(self) -> str:
        """Such as `zarr-2.18/dtypes:C/le_i4`."""
        return f"{self.archive.name}:{self.path}"

    def __str__(self) -> str:
        return self.id

    @property
    def fill_is_null(self) -> bool:
        """The metadata says `fill_value: null`."""
        return self._entry["fill"] is None

    @property
    def little(self) -> np.dtype[Any]:
        """The dtype of `values`: the stored one with every number little-endian."""
        return self.dtype.newbyteorder("<")

    @property
    def values(self) -> npt.NDArray[Any]:
        """The values the old writer reads: little-endian, C order; objects as an object array.

        Where `mask` is given, elements outside it are undefined and zero here.
        """
        if self.unreadable is not None:
            raise ValueError(f"{self.id}: {self.unreadable}")
        entry = self._entry
        if "objects" in entry:
            out = np.empty(len(entry["objects"]), dtype=object)
            for i, packed in enumerate(entry["objects"]):
                out[i] = unpack(packed)
            return out.reshape(self.shape)
        if self.dtype.itemsize == 0:
            return np.zeros(self.shape, dtype=self.dtype)
        return np.frombuffer(self.archive.blobs()[entry["values"]].tobytes(), self.little).reshape(self.shape)

    @property
    def misread(self) -> bool:
        """Whether the old writer reads other values than it wrote, or none, without any lossy filter."""
        return "written" in self._entry

    @property
    def mask(self) -> npt.NDArray[np.bool_] | None:
        """True where values are defined, for an array with null fill and missing chunks; else None."""
        if "mask" not in self._entry:
            return None
        bits = np.unpackbits(self.archive.blobs()[self._entry["mask"]])
        return bits[: int(np.prod(self.shape))].astype(bool).reshape(self.shape)

    def in_axes(self, axes: Literal["kept", "reversed"]) -> npt.NDArray[Any]:
        """The values in the axis order stored ("kept") or in its reverse; a matter of N5 only."""
        return self.values if axes == self.archive.axes else self.values.T


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedArchive:
    """One archive of the fixtures."""

    name: str
    """Such as `zarr-2.18/dtypes`."""
    file: str
    """The folder or zip file, below fixtures."""
    kind: Literal["directory", "zip"]
    prefix: str
    """Where in a zip file the root lies; "" mostly."""
    axes: Literal["kept", "reversed"]
    """Which axis order shape, chunks and values have in the expectations: that of the metadata, or its
    reverse (N5 by zarr-python and z5py, which show (z, y, x))."""
    writer: Mapping[str, str]
    groups: Mapping[str, Mapping[str, Any]]
    """Attributes by path; "" is the root, unless an array lies there."""
    arrays: Mapping[str, ExpectedArray] = field(repr=False, default_factory=dict)

    @property
    def path(self) -> Path:
        """The folder, unpacked, or the zip file."""
        return unpacked(self.file)

    @property
    def format(self) -> Format:
        """Which format it is in."""
        first = self.name.partition("/")[0]
        return next((name for name in FORMATS if name == first), "zarr_v2")

    def __getitem__(self, path: str) -> ExpectedArray:
        return self.arrays[path]

    def __str__(self) -> str:
        return self.name

    def blobs(self) -> Mapping[str, npt.NDArray[np.uint8]]:
        """The raw values of the arrays, by the names the expectations use."""
        return _blobs(*_place(self.name))


@cache
def archives(format: Format = "zarr_v2") -> tuple[ExpectedArchive, ...]:
    """Every archive of a format, sorted by name."""
    root = FIXTURES if format != "zarr_v2" else FIXTURES / format
    folders = [file.parent for file in (FIXTURES / format).rglob("expected.json")]
    names = ((folder.relative_to(root) / name).as_posix() for folder in folders for name in entries(folder))
    return tuple(archive(name) for name in sorted(names))


@cache
def entries(folder: Path) -> Mapping[str, Any]:
    """What is expected of the archives in a writer's folder, by their names there."""
    document: Mapping[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return document


def _place(name: str) -> tuple[Path, str]:
    """The folder of an archive, and its name there."""
    root = FIXTURES if name.partition("/")[0] in FORMATS else FIXTURES / "zarr_v2"
    return (root / name).parent, (root / name).name


@cache
def archive(name: str) -> ExpectedArchive:
    """The archive of this name, such as `zarr-2.18/people/ocean` or `n5/z5py/types`."""
    folder, inside = _place(name)
    document = entries(folder)[inside]
    location = document["location"]
    found: dict[str, ExpectedArray] = {}
    out = ExpectedArchive(
        name=name,
        file=(folder / location["path"]).relative_to(FIXTURES).as_posix(),
        kind=location["kind"],
        prefix=location["prefix"],
        axes=location.get("axes", "kept"),
        writer=document["writer"],
        groups=document["groups"],
        arrays=found,
    )
    for path, entry in document["arrays"].items():
        found[path] = ExpectedArray(
            archive=out,
            path=path,
            dtype=_dtype(entry["dtype"], entry.get("layout")),
            shape=tuple(entry["shape"]),
            chunks=tuple(entry["chunks"]),
            order=entry["order"],
            attributes=entry["attributes"],
            stored_chunks=entry["stored_chunks"],
            unreadable=entry.get("unreadable"),
            refused_by_writer=entry.get("refused_by_writer"),
            needs=entry.get("needs"),
            _entry=entry,
        )
    return out


def arrays(
    keep: Callable[[ExpectedArray], bool] = lambda array: True, *, format: Format = "zarr_v2"
) -> tuple[ExpectedArray, ...]:
    """Every expected array of every archive of a format that `keep` accepts."""
    return tuple(a for one in archives(format) for a in one.arrays.values() if keep(a))


def unpack(packed: Any) -> Any:
    """The object that `recording.pack` wrote as JSON."""
    if isinstance(packed, list):
        return [unpack(p) for p in packed]
    if not isinstance(packed, dict):
        return packed
    match packed:
        case {"$bytes": text}:
            return bytes.fromhex(text)
        case {"$tuple": items}:
            return tuple(unpack(i) for i in items)
        case {"$dict": pairs}:
            return {unpack(k): unpack(v) for k, v in pairs}
        case {"$array": dtype, "shape": shape, "hex": text}:
            return np.frombuffer(bytes.fromhex(text), np.dtype(dtype)).reshape(shape)
        case {"$objects": items, "shape": shape}:
            out = np.empty(len(items), dtype=object)
            out[:] = [unpack(i) for i in items]
            return out.reshape(shape)
    raise ValueError(f"not packed by recording.py: {packed!r}")


def same(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> bool:
    """Whether two arrays hold the same values bit for bit, whatever their byte and memory order."""
    if left.shape != right.shape:
        return False
    if left.dtype.kind == "O" or right.dtype.kind == "O":
        pairs = zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True)
        return all(_same_object(a, b) for a, b in pairs)
    return _raw(left) == _raw(right)


def _same_object(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return left.dtype.newbyteorder("<") == right.dtype.newbyteorder("<") and same(left, right)
    return type(left) is type(right) and bool(left == right)


def _raw(array: npt.NDArray[Any]) -> bytes:
    little = np.array(array, dtype=array.dtype.newbyteorder("<"), order="C")
    if little.dtype.str in ("<f16", "<c32"):  # ten bytes of value; six of padding that mean nothing
        little.reshape(-1).view("u1").reshape(-1, 16)[:, 10:] = 0
    return little.tobytes()


def _dtype(descr: Any, layout: Mapping[str, Any] | None) -> np.dtype[Any]:
    if isinstance(descr, str):
        longer = np.dtype(np.longdouble).itemsize == 8 and descr[1:] in ("f16", "c32")
        return np.dtype(f"V{descr[2:]}" if longer else descr)  # numpy has no such floats on Windows
    assert layout is not None
    names = [name for name, *_ in descr]
    formats: list[Any] = []
    for _, kind, *shape in descr:
        inner = kind if isinstance(kind, str) else np.dtype([_field(f) for f in kind])
        formats.append((inner, tuple(shape[0])) if shape else inner)
    described: Any = {"names": names, "formats": formats, **layout}
    out: np.dtype[Any] = np.dtype(described)
    return out


def _field(field: Any) -> Any:
    name, kind, *shape = field
    inner = kind if isinstance(kind, str) else np.dtype([_field(f) for f in kind])
    return (name, inner, tuple(shape[0])) if shape else (name, inner)


@cache
def _blobs(folder: Path, archive: str) -> Mapping[str, npt.NDArray[np.uint8]]:
    with np.load(folder / "expected.npz", allow_pickle=False) as data:
        names = [name for name in data.files if name.startswith(archive + "/")]
        return {name.removeprefix(archive + "/"): data[name] for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class BadCase:
    """A damaged archive. Its array `good` is sound in every case but `nothing`."""

    name: str
    format: Format
    """Which format it is damaged in."""
    damaged: tuple[str, ...]
    """The nodes that cannot be migrated; none where only `.zmetadata` is wrong."""
    what: str
    """What is wrong, in words."""
    keys: tuple[str, ...]
    """The keys one of which a clear error names."""
    readable: bool
    """Reading the true values is as right as refusing; reading others never is."""

    @property
    def path(self) -> Path:
        """The folder, unpacked."""
        return unpacked(f"{self.format}/bad/{self.name}{'.n5' if self.format == 'n5' else '.zarr'}")

    def __str__(self) -> str:
        return self.name if self.format == "zarr_v2" else f"{self.format}-{self.name}"


@dataclass(frozen=True, slots=True)
class FixtureObjects:
    """The objects of a fixture that is a directory, by key."""

    folder: Path

    def get(self, key: str) -> bytes | None:
        """The bytes under a key; None where no file is."""
        path = self.folder / key
        return path.read_bytes() if path.is_file() else None


@cache
def bad_cases(format: Format = "zarr_v2") -> tuple[BadCase, ...]:
    """Every damaged archive of a format, as `fixtures/writers/bad*.py` wrote them, sorted by name."""
    table = json.loads((FIXTURES / format / "bad" / "cases.json").read_text(encoding="utf-8"))
    return tuple(
        BadCase(
            name=name,
            format=format,
            damaged=tuple(about["damaged"]),
            what=about["what"],
            keys=tuple(about["keys"]),
            readable=about["readable"],
        )
        for name, about in sorted(table.items())
    )


GOOD = np.arange(24, dtype="<i4").reshape(6, 4)
"""What `good` holds in every damaged archive; `bad` was meant to hold the same numbers."""


def make_bad_links(folder: Path) -> Mapping[str, Path]:
    """Archives with links that no checkout can be trusted to keep, made below `folder`.

    By name: `loop` (a group linking to its parent), `self` (a link to itself), `broken` (to nothing),
    `leaves_array` and `leaves_chunk` (out of the root, to data that must not be read unasked), and
    `inside` (a link to a sibling array: this one is to be followed).
    """
    source = archive("zarr-2.18/stores/directory").path
    outside = folder / "outside"
    shutil.copytree(source / "top", outside)
    made = {}
    for name in ("loop", "self", "broken", "leaves_array", "leaves_chunk", "inside"):
        root = folder / f"{name}.zarr"
        shutil.copytree(source, root)
        made[name] = root
    (made["loop"] / "group" / "again").symlink_to("..", target_is_directory=True)
    (made["self"] / "group" / "me").symlink_to("me")
    (made["broken"] / "gone").symlink_to("nowhere")
    (made["leaves_array"] / "linked").symlink_to(outside, target_is_directory=True)
    (made["leaves_chunk"] / "top" / "0.0").unlink()
    (made["leaves_chunk"] / "top" / "0.0").symlink_to(outside / "0.0")
    (made["inside"] / "linked").symlink_to("top", target_is_directory=True)
    return made
