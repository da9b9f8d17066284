"""Test each reader that is installed against the table of readers, and write what it said to the table.

    . ENVIRONMENTS; python -m tests.support.reader_evidence [READER ...]

An archive with an array per feature is migrated by zarrlift with every byte kept, where zarrlift can do so,
and each reader opens each array of the result. Rows of other readers in the table stay. zarr-python is tested
at the version of the Python that runs this: run it at both ends.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.reader_cases import all_cases, cases, same
from tests.support.readers import READERS, VARIABLES, ask_gdal, by_gdal

import zarrlift
from zarrlift.core.chain import reader_table
from zarrlift.core.chain.reader_table import head_features, node_features
from zarrlift.report.readers import evidence, label

_NOISE = (
    r"FAILED_PRECONDITION: |DATA_LOSS: ",
    r'Error opening "zarr3" driver: |Error reading local file "ARRAY": |Error parsing object member ',
    r" ?\[(tensorstore_spec|source locations)=.*",
    r"^Error: |Error parsing zarr v3 array metadata: |RasterioIOError: |NotImplementedError: ",
    r"Array is unsupported by ZarrsCodecPipeline: ",
)
"""What each message of a reader says."""


def archive(folder: Path) -> tuple[Path, dict[str, str]]:
    """An archive with an array for each feature in a group of its own, and feature -> path."""
    written = folder / "written.zarr"
    group = json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {}})
    paths = {}
    written.mkdir()
    (written / "zarr.json").write_text(group)
    for position, (feature, case) in enumerate(all_cases().items()):
        paths[feature] = f"{position:03}/{case.name}"
        (written / f"{position:03}").mkdir()
        (written / f"{position:03}" / "zarr.json").write_text(group)
        case.write(written / paths[feature])
    return written, paths


def migrated(written: Path, paths: dict[str, str], folder: Path) -> tuple[Path, list[str]]:
    """The result of zarrlift, completed with the arrays that it refuses, and the features of those."""
    result = folder / "result.zarr"
    sections = tuple(
        (
            paths[feature],
            (("key_encoding", case.keys[0]), ("separator", case.keys[1]), ("attributes", "keep")),
        )
        for feature, case in all_cases().items()
    )
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="keep", conventions="none"), sections=sections)
    refused = {refusal.path for refusal in zarrlift.plan(written, result, recipe=recipe).refusals}
    if refused:
        recipe = zarrlift.Recipe(
            base=recipe.base, sections=sections, exclude=tuple(refused), consolidate=False
        )
    zarrlift.migrate(written, result, recipe=recipe)
    missing = []
    for feature, case in all_cases().items():
        file = result / paths[feature] / "zarr.json"
        document = json.loads(file.read_text()) if file.exists() else None
        if document is None or feature not in of(document, case.name):
            missing.append(feature)  # refused, or written in another form
            shutil.rmtree(file.parent, ignore_errors=True)
            case.write(file.parent)
    return result, missing


def of(document: dict[str, Any], name: str) -> tuple[str, ...]:
    """The features of an array."""
    return (*head_features(document), *node_features(name, document["attributes"]))


def answers(
    read: Callable[[Path, str], Any], root: Path, paths: dict[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Features whose values a reader shows, and what it said about the others."""
    reads, refuses = [], {}
    for feature, case in all_cases().items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values = np.asarray(read(root, paths[feature]).values)
        except Exception as error:  # noqa: BLE001 - each reader has its own
            refuses[feature] = said(error)
            continue
        if same(values, case):
            reads.append(feature)
        else:
            refuses[feature] = reader_table.MISREAD
    return reads, refuses


def said(error: Exception) -> str:
    """The first line of a message, without the places of this machine."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = re.sub(
        r"(file://)?/[^\s'\"]*written?[^\s'\"]*|(file://)?/[^\s'\"]*result\.zarr[^\s'\"]*", "ARRAY", text
    )
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    for noise in _NOISE:
        text = re.sub(noise, "", text)
    text = (
        text
        if type(error).__name__ in ("CannotRead", "ValueError", "RuntimeError", "UnknownCodecError")
        else f"{type(error).__name__}: {text}"
    )
    return text if len(text) <= 120 else text[:117] + "..."


def readers() -> dict[str, tuple[str, Callable[[Path, str], Any]]]:
    """Reader -> version and function, of those that are installed."""
    zarr = version("zarr")
    found = {f"zarr-python {zarr}": (zarr, READERS["zarr-python"])}
    if sys.version_info[:2] != (3, 11):  # the others read the same bytes at both ends
        return found
    found |= {name: (version(name), READERS[name]) for name in ("tensorstore", "zarrs", "xarray")}
    for name in ("zarrita", "neuroglancer"):
        if folder := os.environ.get(VARIABLES[name]):
            package = json.loads((Path(folder) / "package.json").read_text())
            found[name] = package["dependencies"][name], READERS[name]
    if "ZARRLIFT_GDAL" in os.environ:
        for older in (True, False):
            number = ask_gdal("versions", older=older)
            found[f"gdal {number['gdal']}"] = number["gdal"], partial(by_gdal, older=older)
        found["netcdf-c"] = number["netcdf-c"], partial(by_gdal, reader="netcdf-c")
    return found


PAGE = Path(__file__).parents[2] / "docs" / "reference" / "readers.md"
START, END = "<!-- table -->\n\n", "<!-- end of the table -->"
"""Around the generated part of the page."""


def page_tables() -> str:
    """The table as the page shows it: readers, data types, codecs, and other features."""
    whole = reader_table.table()
    features = [feature for group in whole.features.values() for feature in group]
    apart = [reader for reader in whole.readers if reader.built_on is None]
    own = [reader for reader in apart if any(reader.answer(feature) for feature in features)]
    nothing = ", ".join(str(reader) for reader in apart if reader not in own)
    parts = [_markdown(("reader", "evidence"), ((str(reader), evidence(reader)) for reader in whole.readers))]
    parts.append(
        f"{nothing} read nothing of what follows. *All* are all others, except those in the last column.\n"
    )
    others = []
    for group, features in whole.features.items():
        kind = {"data types": "data type", "codecs": "codec"}.get(group)
        rows = []
        for feature in features:
            words = _who(own, feature)
            if kind is None:
                others.append((f"`{feature}`", *words))
                continue
            name = label(feature, group)
            where = whole.registered.get(f"{kind} {name.partition(' ')[0]}", "nowhere")
            rows.append((f"`{name}`", where, *words))
        if rows:
            heads = (group, "registered in", *WHO)
            parts.append(f"## {group.capitalize()}\n\n" + _markdown(heads, rows))
    parts.append("## Other features\n\n" + _markdown(("feature", *WHO), others))
    tested, cells = whole.cells
    return f"{tested:,} of {cells:,} cells are tested.\n\n" + "\n".join(parts) + "\n"


WHO = ("read by", "not known of")


def _who(own: Sequence[reader_table.Reader], feature: str) -> tuple[str, str]:
    """The readers that read a feature, or all but those that do not; and those of which it is not known."""
    yes, no, unknown = (_names(own, feature, answer) for answer in (True, False, None))
    if len(no) < len(yes):
        return f"all but {', '.join(no)}" if no else "all", ", ".join(unknown)
    return ", ".join(yes) or "none", ", ".join(unknown)


def _names(own: Sequence[reader_table.Reader], feature: str, answer: bool | None) -> list[str]:
    """The readers with this answer, without a version where all versions have it."""
    by_name: dict[str, list[reader_table.Reader]] = {}
    for reader in own:
        by_name.setdefault(reader.name, []).append(reader)
    found: list[str] = []
    for name, versions in by_name.items():
        have = [str(reader) for reader in versions if reader.answer(feature) is answer]
        found += [name] if len(have) == len(versions) else have
    return found


def _markdown(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in which things with the same cells share a row."""
    heads = tuple(heads)
    names: dict[tuple[str, ...], list[str]] = {}
    for name, *cells in rows:
        names.setdefault(tuple(cells), []).append(name)
    lines = [heads, ("---",) * len(heads), *((", ".join(found), *cells) for cells, found in names.items())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_page() -> None:
    """Put the table into the page."""
    before, _, rest = PAGE.read_text().partition(START)
    PAGE.write_text(before + START + page_tables() + END + rest.partition(END)[2])


def main(*wanted: str) -> None:
    file = Path(reader_table.__file__).with_name(reader_table.FILE)
    data = json.loads(file.read_text()) if file.exists() else {"registered": {}, "readers": []}
    data["features"] = {group: list(found) for group, found in cases().items()}
    for feature, case in all_cases().items():
        assert feature in of(case.document, case.name), f"another feature than {feature}"
    rows = {(row["name"], row["version"]): row for row in data["readers"]}
    with tempfile.TemporaryDirectory() as temporary:
        written, paths = archive(Path(temporary))
        if data["readers"]:
            root, missing = migrated(written, paths, Path(temporary))
            print(f"{len(paths) - len(missing)} arrays by zarrlift; by hand: {', '.join(missing)}")
        else:
            root = written
        for label, (number, read) in readers().items():
            name = label.partition(" ")[0]
            if wanted and name not in wanted:
                continue
            reads, refuses = answers(read, root, paths)
            print(f"{name} {number}: reads {len(reads)} of {len(paths)}")
            row = rows.get((name, number), {"name": name, "version": number})
            rows[name, number] = row
            said_of: dict[str, list[str]] = {}
            for feature, message in refuses.items():
                said_of.setdefault(message, []).append(feature)
            row |= {"tested": f"{datetime.now(UTC):%Y-%m-%d}", "reads": reads, "refuses": said_of}
    data["readers"] = list(rows.values())
    file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    reader_table.table.cache_clear()
    write_page()


if __name__ == "__main__":
    main(*sys.argv[1:])
