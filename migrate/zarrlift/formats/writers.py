"""Recognizes the software that wrote an archive, from its attributes and the form of its documents.

A document shows the JSON library of its writer: members in sorted or fixed order, indentation, separators.
The forms were observed in the fixtures, whose writers are known. An archive may have several writers:
anndata, for example, writes through zarr-python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ..archive.nodes import Archive, ArrayNode
from ..recipe.options import Format

_START: Final = 80
"""Number of bytes at the start of a document that show its form."""
_FORMS: Final[Mapping[Format, tuple[tuple[re.Pattern[bytes], str], ...]]] = {
    "zarr1": ((re.compile(rb'\{\n    "chunks": \['), "zarr-python 1"),),
    "zarr2": (
        (re.compile(rb'\{\n    "chunks": \['), "zarr-python 2 or z5py"),
        (re.compile(rb'\{\n  "shape": \['), "zarr-python 3"),
        (re.compile(rb'\{\n  "chunks":\['), "GDAL"),
        (re.compile(rb'\{"chunks":\['), "tensorstore"),
        (re.compile(rb'\{"zarr_format": 2, "shape": \['), "netcdf-c"),
    ),
    "n5": (
        (re.compile(rb'\{\n    "([a-zA-Z]+)": '), "zarr-python 2 or z5py"),
        (re.compile(rb'\{("axes":\[[^]]*\],)?"blockSize":\['), "tensorstore"),
        (re.compile(rb'\{("n5":"[^"]*",)?"(dataType|compressionType)":'), "N5 for Java"),
    ),
    "zarr3": ((re.compile(rb'\{\n  "(shape|attributes)": '), "zarr-python 3"),),
    "zarr3-draft": (
        (re.compile(rb'\{\n    "attributes": '), "zarr-python 2"),
        (re.compile(rb'\{\n  "shape":\['), "GDAL"),
    ),
}
"""Start of an array's document -> its writer; the first that matches counts."""
_NETCDF: Final = re.compile(r"netcdf=([^,]+)")


def _netcdf(value: Any) -> str | None:
    version = _NETCDF.search(value) if isinstance(value, str) else None
    return f"netcdf-c {version[1]}" if version else "netcdf-c"


def _titled(value: Any) -> str | None:
    """A `_creator` of an OME-Zarr: an object with name and version."""
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    version = value.get("version")
    return f"{value['name']} {version}" if isinstance(version, str) else str(value["name"])


def _spatialdata(value: Any) -> str | None:
    version = value.get("spatialdata_software_version") if isinstance(value, dict) else None
    return f"spatialdata {version}" if isinstance(version, str) else "spatialdata"


_ATTRIBUTES: Final[Mapping[str, Callable[[Any], str | None]]] = {
    "_NCProperties": _netcdf,
    "_creator": _titled,
    "_CRS": lambda _: "GDAL",
    "bioformats2raw.layout": lambda _: "bioformats2raw",
    "encoding-type": lambda value: "anndata" if value == "anndata" else None,
    "spatialdata_attrs": _spatialdata,
    ".specloc": lambda _: "hdmf-zarr",
    "painteraData": lambda _: "Paintera",
    "bigdataviewer": lambda _: "BigDataViewer",
}
"""Attribute -> the software that its value names."""


def writers(archive: Archive) -> frozenset[str]:
    """The names of the writers recognized in an archive, with versions where they are recorded."""
    names: set[str] = set()
    for node in archive.nodes:
        for name in _ATTRIBUTES.keys() & node.attributes.keys():
            if writer := _ATTRIBUTES[name](node.attributes[name]):
                names.add(writer)
        if isinstance(node, ArrayNode) and node.documents:
            start = node.documents[0].content[:_START]
            names.update(writer for form, writer in _FORMS.get(archive.format, ()) if form.match(start))
    if any(writer.startswith("netcdf-c ") for writer in names):
        names.discard("netcdf-c")  # its documents have no version
    return frozenset(names)
