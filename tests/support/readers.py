"""Readers that others wrote, each as a function: what it sees of what zarrlift wrote."""

from __future__ import annotations

import atexit
import base64
import json
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.abc.store import Store

ENVIRONMENTS: Final = Path(__file__).resolve().parents[1] / "environments"
"""Where the scripts are that run in environments of other readers: `ENVIRONMENTS / NAME`."""


class CannotRead(Exception):
    """The reader itself says that it does not support this array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One array as a reader sees it."""

    reader: str
    dtype: str
    """The reader's own word for the data type."""
    values: npt.NDArray[Any]
    """Strings and bytes of variable length as an object array of str or bytes."""
    attributes: Mapping[str, Any] | None = field(default=None)
    """None where the reader does not show them."""
    fill: Any = None
    """A 0-d array or a str; None where the reader does not show it."""
    dimension_names: tuple[str | None, ...] | None = None


def parametrize_readers(names: Iterable[str]) -> pytest.MarkDecorator:
    """A test of every reader; all but zarr-python, which everyone has, are slow ones."""
    cases = []
    for name in names:
        marks = [pytest.mark.needs_reader(name), pytest.mark.slow]
        cases.append(pytest.param(name, marks=marks[: 1 + (name != "zarr-python")]))
    return pytest.mark.parametrize("reader", cases)


def plain(values: Any, shape: tuple[int, ...], dtype: np.dtype[Any] | None = None) -> npt.NDArray[Any]:
    """Values as an array: numpy's StringDType as objects, a bare scalar as the 0-d array it was.

    `dtype` is that of the array, which a bare str or bytes scalar no longer knows.
    """
    if not isinstance(values, np.ndarray) and (dtype is None or dtype.kind in "OT"):
        result: npt.NDArray[Any] = np.empty(shape, dtype=object)
        result[()] = values
        return result
    array = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else dtype)
    return array.astype(object) if array.dtype.kind == "T" else array


def by_zarr_python(root: Path | Store, path: str) -> Seen:
    """zarr-python, with its own codec pipeline, from a folder or a store."""
    if isinstance(root, Store):
        array = zarr.open_array(root, path=path, mode="r", zarr_format=3)
    else:
        array = zarr.open_array(root / path, mode="r", zarr_format=3)
    return _seen("zarr-python", array, array[...])


def by_zarrs(root: Path, path: str) -> Seen:
    """zarrs (Rust) through its codec pipeline for zarr-python: chunks are decoded by zarrs alone.

    Where zarrs does not support an array, the pipeline warns and lets zarr-python decode
    (zarrs 0.2.3, `zarrs/pipeline.py`); here that counts as not reading it.
    """
    import zarrs  # noqa: F401 - makes its pipeline known

    with zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"}), warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning)
        warnings.filterwarnings("ignore", category=zarr.errors.UnstableSpecificationWarning)
        warnings.filterwarnings("ignore", message="Numcodecs codecs are not in the Zarr version 3")
        try:
            array = zarr.open_array(root / path, mode="r", zarr_format=3)
            values = array[...]
        except UserWarning as warning:
            raise CannotRead(str(warning)) from warning
    return _seen("zarrs", array, values)


def _seen(reader: str, array: zarr.Array, values: Any) -> Seen:
    metadata = array.metadata
    return Seen(
        reader=reader,
        dtype=str(metadata.data_type),
        values=plain(values, array.shape, array.dtype),
        attributes=dict(metadata.attributes),
        fill=metadata.fill_value,
        dimension_names=metadata.dimension_names,
    )


_TENSORSTORE_REFUSALS = (
    "data_type",
    "data type",
    "fill_value",
    "is not one of",
    "not registered",
    "Unsupported",
    'Must specify a "field"',
    "not unique",
    "Invalid JSON",
)
"""Words of the messages with which tensorstore 0.1.86 turns down an array's metadata.

It reads structs a field at a time, no dimension name twice in an array, and no JSON with half of a
surrogate pair.
"""


def by_tensorstore(root: Path, path: str) -> Seen:
    """TensorStore's zarr3 driver: independent of zarr-python and numcodecs."""
    import tensorstore as ts

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(root / path)}}
    try:
        array = ts.open(spec, read=True).result()
    except ValueError as error:
        if any(word in str(error) for word in _TENSORSTORE_REFUSALS):
            raise CannotRead(str(error)) from error
        raise
    metadata = array.spec().to_json()["metadata"]
    names = metadata.get("dimension_names")
    values = array.read().result()
    values = _bytes(values) if array.dtype.name == "byte" else plain(values, array.shape)
    return Seen(
        reader="tensorstore",
        dtype=str(array.dtype),
        values=values,
        attributes=metadata.get("attributes", {}),
        fill=None if array.fill_value is None else np.asarray(array.fill_value),
        dimension_names=None if names is None else tuple(names),
    )


class _Reinterpreted:
    """The memory of an array under another element type, for numpy."""

    def __init__(self, array: np.ndarray, typestr: str) -> None:
        interface = {key: value for key, value in array.__array_interface__.items() if key != "descr"}
        self.__array_interface__ = {**interface, "typestr": typestr}
        self.keep_alive = array


def _bytes(array: np.ndarray) -> np.ndarray:
    """Raw bytes as one value each: tensorstore gives one more axis, of elements numpy takes for `V0`."""
    single = np.ascontiguousarray(np.asarray(_Reinterpreted(array, "|u1")))
    return single.view(f"V{single.shape[-1]}")[..., 0]


def by_xarray(root: Path, path: str) -> Seen:
    """xarray, which shows arrays as variables of a group's dataset and needs their dimension names."""
    import xarray

    group, _, name = path.rpartition("/")
    try:
        dataset = xarray.open_dataset(
            root / group, engine="zarr", zarr_format=3, consolidated=False, decode_cf=False, chunks=None
        )
    except (KeyError, ValueError) as error:
        raise CannotRead(str(error)) from error
    with dataset:
        variable = dataset.variables[name]
        attributes = dict(variable.attrs)
        # xarray shows the array's fill value as CF's attribute (2026.9, `ZarrStore.open_store_variable`).
        fill = attributes.pop("_FillValue", None)
        return Seen(
            reader="xarray",
            dtype=str(variable.dtype),
            values=plain(variable.values, variable.shape),
            attributes=attributes,
            fill=fill,
            dimension_names=tuple(str(name) for name in variable.dims),
        )


PATIENCE = 300
"""How long one archive may take, in seconds."""


class _Node:
    """read.mjs in one node process, which answers one question a line."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("ZARRLIFT_ZARRITA") or ENVIRONMENTS / "zarrita")
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(
            ["node", str(folder / "read.mjs")], stdin=pipe, stdout=pipe, stderr=self.errors, text=True
        )

    def ask(self, *words: str) -> dict[str, Any]:
        """Every array of an archive, by path; RuntimeError with what node says if it ends instead."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        timer = Timer(PATIENCE, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps(words) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            answers: dict[str, Any] = json.loads(line)
            return answers
        said = self.close()
        _node.cache_clear()  # the next question gets a new process
        raise RuntimeError(f"node ended with {self.process.returncode}: {said}")

    def close(self) -> str:
        """End the process, if it is there; what it said on its error stream."""
        if self.errors.closed:
            return ""
        self.process.communicate()
        self.errors.seek(0)
        said = self.errors.read()[-2000:]
        self.errors.close()
        return said


@cache
def _node() -> _Node:
    """The process, as long as this one lives."""
    node = _Node()
    atexit.register(node.close)
    return node


@cache
def _archive(root: Path) -> dict[str, Any]:
    """Every array of an archive, read once."""
    return _node().ask(str(root))


def by_zarrita(root: Path, path: str) -> Seen:
    """zarrita.js under node: another language, another set of codecs."""
    return _answer(_archive(root)[path])


def _answer(answer: dict[str, Any]) -> Seen:
    """What the script said about an array."""
    if "refused" in answer:
        raise CannotRead(answer["refused"])
    shape = tuple(answer["shape"])
    if "objects" in answer:
        values: Any = np.empty(len(answer["objects"]), dtype=object)
        values[:] = answer["objects"]
        values = values.reshape(shape)
    else:
        raw = base64.b64decode(answer["base64"])
        values = np.frombuffer(raw, np.dtype(answer["numpy"])).reshape(shape)
    names = answer["dimension_names"]
    return Seen(
        reader="zarrita",
        dtype=answer["dtype"],
        values=values,
        attributes=answer["attributes"],
        dimension_names=None if names is None else tuple(names),
    )


def ask_zarr_2_18(script: str, place: str | Path, given: Any) -> Any:
    """What a script of zarr-python 2.18.7 answers about a place, both as JSON; None where it says nothing."""
    python = Path(os.environ["ZARRLIFT_ZARR218"]) / "bin" / "python"
    words = [python, ENVIRONMENTS / "zarr-2.18" / script, place, json.dumps(given)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout) if done.stdout else None


READERS: Final[Mapping[str, Callable[[Path, str], Seen]]] = {
    "zarr-python": by_zarr_python,
    "tensorstore": by_tensorstore,
    "zarrs": by_zarrs,
    "zarrita": by_zarrita,
    "xarray": by_xarray,
}
OF_ALL_FEATURES: Final = ("zarr-python", "tensorstore", "zarrs", "zarrita")
"""Those that are asked to read whatever is written; the others read little of it."""
