"""References in the two forms of kerchunk: a JSON file, version 1, and a directory with Parquet files.

JSON: https://fsspec.github.io/kerchunk/spec.html. Documents of Zarr v3 and of Zarr v2 name the same chunk
keys: what was written for kerchunk reads Zarr v2 only (its xarray engine, 0.2.10), zarr-python 3 reads both.

Parquet: as `LazyReferenceMapper` of fsspec 2026.9 reads it. It finds a reference by the shape in `.zarray`,
so the directory has documents of Zarr v2 only, and holds no array at its root.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import Problem, UsageError
from zarrstack.core.json_text import JSONObject

from ...core.grid.grid import Grid
from ...core.json_document import document
from ...formats.describe import describe
from ...storage.local.partial_files import sweep_partial
from ...storage.local.storage import LocalStorage
from ...storage.open_storage import is_url, open_storage
from ...storage.remote.event_loop import close_soon
from ...storage.remote.zarr_store import StoreStorage
from ...views.reverse_arrays import Presentation
from ...views.reverse_hierarchy import DOCUMENTS, ReverseHierarchy
from ..places import existing

if TYPE_CHECKING:
    from ...planning.plans import ArrayPlan
    from ...storage.base import Storage
    from ...transfer.references import ConvertedChunk, References
    from ...transfer.referred_objects import ReferredPlace, Version

JSON: Final = (".json",)
PARQUET: Final = (".parquet", ".parq")
"""Ends of the names of both forms."""
_PACKAGES: Final = {"s3": "s3fs", "gs": "gcsfs", "http": "aiohttp", "https": "aiohttp"}
_RECORD: Final = 100_000
"""References in a Parquet file."""
_DICTIONARY: Final = 1 << 30
"""Bytes of the texts of a Parquet file."""
_UNFINISHED: Final = re.compile(r"refs\.\d+\.parq(\..*\.partial)?|\.zmetadata\..*\.partial")
"""Names of the files of a directory that has no `.zmetadata` yet."""
_BASE64: Final = "base64:"
_V3_ONLY: Final = "Readers of Zarr v3 find it in JSON; those of Zarr v2, and of Parquet, do not."


class Kerchunk:
    """References in memory, which become a JSON file; nothing is visible before `publish`."""

    keys = KeyEncoding("v2", ".")
    """The chunk keys that it stores."""
    keeps_versions = False
    """Whether a reader is told that a referred object has changed."""

    def __init__(
        self,
        destination: str,
        options: Mapping[str, Any] | None,
        source: ReferredPlace,
        source_options: Mapping[str, Any] | None,
    ) -> None:
        """`options` are those of the destination's storage."""
        folder, slash, self._name = destination.rpartition("/")
        if not is_url(destination):
            folder = folder or ("/" if slash else ".")
        self._folder = open_storage(folder, storage_options=options, mode="w")
        self.url: Final = f"{self._folder.url.rstrip('/')}/{self._name}"
        self.source = source
        self._source_options = dict(source_options or {})
        self._refs: dict[str, Any] = {}
        self._left: list[str] = []
        """Files of an interrupted run."""

    def refuse_existing(self) -> None:
        """Raise UsageError if there is such a file."""
        if self._folder.size(self._name) is not None:
            raise existing(self.url)

    def document(self, key: str, content: JSONObject) -> None:
        """Receive a document; that of an array precedes its chunks."""
        self._refs[key] = document(content).decode()

    def refer(self, array: ArrayPlan, references: References, versions: Sequence[Version | None]) -> None:
        """Receive references."""
        keys = array.destination.object_keys(array.path, references.places)
        urls = self.source.urls(references.keys)
        ranges = zip(urls, references.offsets.tolist(), references.lengths.tolist(), strict=True)
        self._refs.update(zip(keys, map(list, ranges), strict=True))

    def store(self, array: ArrayPlan, chunk: ConvertedChunk) -> None:
        """Receive a chunk that is no range of the source."""
        key = array.destination.key(array.path, chunk.place)
        self._refs[key] = _BASE64 + base64.b64encode(chunk.data).decode()

    def drop(self, path: str) -> None:
        """Forget an array."""
        start = f"{path}/" if path else ""
        for key in [key for key in self._refs if key.startswith(start)]:
            del self._refs[key]

    def storage(self) -> Storage:
        """The references as fsspec resolves them."""
        return self._storage

    @cached_property
    def _storage(self) -> StoreStorage:
        import fsspec
        from zarr.storage import FsspecStore

        try:
            files = fsspec.filesystem(
                "reference",
                fo=self._refs,
                remote_protocol=self.source.scheme,
                remote_options={**self._source_options, **self._asynchronous},
                asynchronous=True,
                skip_instance_cache=True,
            )
        except ImportError as error:
            raise UsageError(
                "references cannot be checked without the package that readers need",
                found=str(error),
                expected=_PACKAGES.get(self.source.scheme, self.source.scheme),
                advice="Install it, or use --verify none.",
            ) from error
        opened = StoreStorage(FsspecStore(files, read_only=True, path=""), url=self.url)
        store: Any = opened.backing
        store.fs.references = self._refs  # not a copy, so that what follows is found
        return opened

    @property
    def _asynchronous(self) -> dict[str, Any]:
        return {} if self.source.scheme == "file" else {"asynchronous": True, "skip_instance_cache": True}

    def complete(self) -> Sequence[Problem]:
        """Add documents of Zarr v2; a warning for each array that has none."""
        self.close()
        vars(self).pop("_storage", None)  # which may have kept a listing
        storage = self.storage()
        archive = describe(storage, format="zarr3")
        showing = Presentation(format="zarr2", separator=".")
        hierarchy = ReverseHierarchy.of(archive, storage, storage.zarr_store(), showing)
        problems = [problem for problem in hierarchy.problems if "not shown as" in problem.message]
        for path, array in hierarchy.arrays.items():
            if not array.same_codecs:
                problems.append(
                    Problem(kind="readers", message="its codecs have no form in Zarr v2", node=path)
                )
        without = {problem.node: problem for problem in problems}
        for key, content in hierarchy.documents.items():
            path, _, name = key.rpartition("/")
            if name != ".zmetadata" and path not in without:
                self._refs[key] = content.decode()
        return [replace(problem, severity="warning", advice=_V3_ONLY) for problem in without.values()]

    def publish(self, message: str) -> int:
        """Write the file."""
        text = json.dumps({"version": 1, "refs": self._refs}, ensure_ascii=False, separators=(",", ":"))
        data = text.encode("utf-8", "surrogatepass")
        if isinstance(self._folder, LocalStorage):
            sweep_partial(self._folder.path(self._name))
        self._folder.put(self._name, data)
        return len(data)

    def close(self) -> None:
        """Close the connections of the check."""
        if "_storage" in vars(self):
            store: Any = self._storage.backing
            for files in store.fs.fss.values():
                close_soon(files)

    def how_to_open(self) -> str:
        """Python that opens the result."""
        options = {"fo": self.url, "remote_protocol": self.source.scheme}
        if self._source_options:
            options["remote_options"] = "<those of the source>"
        return "\n".join(
            (
                "import zarr",
                f'group = zarr.open("reference://", mode="r", zarr_format=3, storage_options={options!r})',
            )
        )


class KerchunkParquet(Kerchunk):
    """A directory with `.zmetadata`, and Parquet files with the references of each array."""

    def refuse_existing(self) -> None:
        """Raise UsageError if there is such a directory, or a package is missing.

        An interrupted run leaves Parquet files alone, which this one replaces.
        """
        _packages()
        super().refuse_existing()
        for key in self._folder.list_prefix(f"{self._name}/"):
            if not _UNFINISHED.fullmatch(key.rpartition("/")[2]):
                raise existing(self.url)
            self._left.append(key)

    def complete(self) -> Sequence[Problem]:
        """Add documents of Zarr v2; UsageError for an array at the root."""
        if json.loads(self._refs.get("zarr.json", "{}")).get("node_type") == "array":
            raise UsageError(
                "Parquet references hold no array at the root",
                found=self.url,
                expected="a name that ends in .json",
            )
        return super().complete()

    def publish(self, message: str) -> int:
        """Write the files; `.zmetadata`, without which nothing is found, comes last."""
        written = 0
        for key in self._left:
            self._folder.delete(key)
        for path, (grid, chunks) in self._arrays.items():
            for name, data in _parquet_files(grid, chunks):
                self._folder.put(f"{self._name}/{path}/{name}", data)
                written += len(data)
        documents = {
            key: json.loads(value)
            for key, value in self._refs.items()
            if key.rpartition("/")[2] in DOCUMENTS["zarr2"]
        }
        data = json.dumps({"metadata": documents, "record_size": _RECORD}).encode()
        self._folder.put(f"{self._name}/.zmetadata", data)
        return written + len(data)

    @cached_property
    def _arrays(self) -> dict[str, tuple[Grid, dict[int, Any]]]:
        """Grid and references, by linear index, of each array with a document of Zarr v2."""
        arrays: dict[str, tuple[Grid, dict[int, Any]]] = {}
        for key, value in self._refs.items():
            path, _, name = key.rpartition("/")
            if name == ".zarray":
                content = json.loads(value)
                arrays[path] = Grid(tuple(content["shape"]), tuple(content["chunks"])), {}
        for key, value in self._refs.items():
            path, _, name = key.rpartition("/")
            if path not in arrays:
                continue
            grid, chunks = arrays[path]
            place = self.keys.coordinates(name, len(grid.shape))
            if place is not None and (index := grid.index(place)) is not None:
                chunks[index] = value
        return arrays


def _parquet_files(grid: Grid, references: Mapping[int, Any]) -> Iterator[tuple[str, bytes]]:
    """The files of an array, each with a part of its grid; none for a part without references."""
    for number in sorted({index // _RECORD for index in references}):
        start = number * _RECORD
        rows = [references.get(index) for index in range(start, min(start + _RECORD, grid.total))]
        yield f"refs.{number}.parq", _parquet(rows)


def _parquet(rows: Sequence[Any]) -> bytes:
    """A file with a row for each reference, chunk, or None."""
    pyarrow, parquet = _packages()
    listed = [row if isinstance(row, list) else (None, 0, 0) for row in rows]
    chunks = [base64.b64decode(row[len(_BASE64) :]) if isinstance(row, str) else None for row in rows]
    # fastparquet 2026.9, with which fsspec reads, makes floats of integers that may be null or have no
    # statistics, and with pandas 3 NaN of missing text without a dictionary, on which fsspec fails.
    schema = pyarrow.schema(
        [
            pyarrow.field("path", pyarrow.string()),
            pyarrow.field("offset", pyarrow.int64(), nullable=False),
            pyarrow.field("size", pyarrow.int64(), nullable=False),
            pyarrow.field("raw", pyarrow.binary()),
        ]
    )
    columns = [*map(list, zip(*listed, strict=True)), chunks]
    table = pyarrow.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
    file = io.BytesIO()
    parquet.write_table(
        table,
        file,
        compression="zstd",
        write_statistics=["offset", "size"],
        use_dictionary=["path"],
        dictionary_pagesize_limit=_DICTIONARY,
    )
    return file.getvalue()


def _packages() -> tuple[Any, Any]:
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            "Parquet references need a package that is not installed",
            expected="pyarrow",
            advice="Install it: pip install pyarrow (the extra kerchunk), or write a .json file.",
        ) from error
