"""A census agrees with what the archives' own writers say of them, and with what a migration does."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support.bucket import Bucket
from tests.support.fixtures_index import archive
from tests.support.unpacking import unpacked
from tests.support.v2_trees import ARRAY, GROUP, tree

import zarrlift
from zarrlift.cli import main
from zarrlift.formats.describe import describe
from zarrlift.formats.search import FoundArchive, search
from zarrlift.formats.writers import writers
from zarrlift.jobs.census.census import Cost
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import UsageError

OTHERS = {
    "zarr_v2/zarr-2.18/shapes": "zarr-2.18/shapes",
    "n5/zarr-2.18/store": "n5/zarr-2.18/store",
    "zarr_v1/zarr-1.0/root": "zarr_v1/zarr-1.0/root",
    "zarr_v3_draft/zarr-2.18/tree": "zarr_v3_draft/zarr-2.18/tree",
}
"""Folder of the tree -> fixture, for which its writer recorded what it reads."""


DOCUMENTS = (".zarray", ".zgroup", ".zattrs", "attributes.json", "meta", "attrs", "zarr.json")


def is_document(path: Path) -> bool:
    """Whether a file of an archive is metadata."""
    return path.name in DOCUMENTS or path.name.endswith((".array.json", ".group.json"))


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of each format, at different depths."""
    root = tmp_path_factory.mktemp("collection")
    for folder, name in OTHERS.items():
        shutil.copytree(archive(name).path, root / folder)
    shutil.copytree(unpacked("zarr_v3/zarr-3.1/all.zarr"), root / "zarr_v3.zarr")
    return root


def test_a_census_counts_what_the_writers_recorded(collection: Path) -> None:
    shapes: Counter[str] = Counter()
    arrays = 0
    for name in OTHERS.values():
        for each in archive(name).arrays.values():
            arrays += 1
            shapes["x".join(map(str, each.chunks)) or "scalar"] += 1
    for path in (collection / "zarr_v3.zarr").rglob("zarr.json"):
        document = json.loads(path.read_text())
        if document["node_type"] == "array":
            arrays += 1
            shards = [codec for codec in document["codecs"] if codec["name"] == "sharding_indexed"]
            chunk = shards[0] if shards else document["chunk_grid"]
            shapes["x".join(map(str, chunk["configuration"]["chunk_shape"])) or "scalar"] += 1
    census = zarrlift.census(collection)
    assert census.formats == {"n5": 1, "zarr1": 1, "zarr2": 1, "zarr3": 1, "zarr3-draft": 1}
    assert (census.archives, census.current, census.broken, census.nested) == (5, 1, (), ())
    assert census.arrays == arrays
    told = {example.problem.node for group in census.problems for example in group.examples}
    assert census.refused == 0, told
    assert dict(census.chunk_shapes.counts) == dict(shapes)
    assert sum(size.arrays for size in census.chunk_sizes) == arrays
    assert census.objects == sum(path.is_file() for path in collection.rglob("*"))
    chunks = [path for path in collection.rglob("*") if path.is_file() and not is_document(path)]
    assert census.bytes == sum(path.stat().st_size for path in chunks)
    assert sum(size.chunks for size in census.chunk_sizes) == len(chunks)


def test_data_types_and_codecs_are_those_of_the_documents(tmp_path: Path) -> None:
    zlib = {**ARRAY, "dtype": "<f8", "compressor": {"id": "zlib", "level": 1}}
    tree(
        tmp_path,
        {
            "a.zarr/.zarray": ARRAY,
            "b.zarr/.zgroup": GROUP,
            "b.zarr/x/.zarray": zlib,
            "b.zarr/y/.zarray": {**zlib, "chunks": [4, 6]},
            "c.n5/attributes.json": {"dimensions": [9], "blockSize": [3], "dataType": "float64"},
        },
    )
    census = zarrlift.census(tmp_path)
    assert census.data_types.counts == {"float64": 2, "int32": 1}
    assert census.codecs.counts == {"bytes": 3, "numcodecs.zlib": 2}
    assert census.chunk_shapes.counts == {"2x3": 2, "4x6": 1}
    assert [(size.at_least, size.arrays) for size in census.chunk_sizes] == [(0, 3)]
    assert {(route.route, route.archives, route.arrays) for route in census.routes} == {
        ("relink", 1, 1),
        ("recode", 1, 2),
    }
    assert census.routes[0].codecs.counts == {"bytes, numcodecs.zlib -> bytes, gzip": 2}
    assert [example.archive for example in census.problems[0].examples] == ["c.n5"]


def test_the_cost_is_what_a_migration_does(collection: Path, tmp_path: Path) -> None:
    for number, each in enumerate(search(collection)):
        assert isinstance(each, FoundArchive)
        census = zarrlift.census(each.url)
        assert census.cost is not None
        if each.format == "zarr3":
            assert census.cost == Cost()
            continue
        result = tmp_path / f"{number}.zarr"
        outcome = zarrlift.migrate(each.url, result)
        assert outcome.ok
        written = [path for path in result.rglob("*") if path.is_file() and ".zarrlift" not in path.name]
        assert census.cost.writes == len(written)
        stored = [path for path in Path(each.url).rglob("*") if path.is_file()]
        assert census.cost.reads == len(stored)
        documents = sum(len(path.read_bytes()) for path in stored if is_document(path))
        assert census.cost.bytes_read == sum(path.stat().st_size for path in stored) - documents


def test_every_broken_archive_is_named_and_the_others_are_counted(tmp_path: Path, capsys: Any) -> None:
    tree(tmp_path, {f"{number}.zarr/.zarray": ARRAY for number in range(20)})
    tree(tmp_path, {"11.zarr/.zarray": b"{", "bad/zarr.json": b"{", "empty.zarr/x": b""})
    census = zarrlift.census(tmp_path)
    assert (census.archives, census.arrays, census.refused) == (21, 20, 1)
    assert [example.archive for example in census.broken] == ["bad"]
    assert [problem.node for problem in census.unsearched] == ["empty.zarr"]
    refusals = [group for group in census.problems if group.severity == "refusal"]
    assert [(group.count, [each.archive for each in group.examples]) for group in refusals] == [
        (1, ["11.zarr"])
    ]
    assert main(["inspect", str(tmp_path), "--json"]) == 1
    printed = json.loads(capsys.readouterr().out)["result"]
    assert printed == json.loads(json.dumps(census.to_json()))


def test_an_error_that_nobody_foresaw_ends_one_archive_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"a.zarr/.zarray": ARRAY, "b.zarr/.zarray": ARRAY})

    def fails(storage: Any, **options: Any) -> Any:
        if storage.url.endswith("a.zarr"):
            raise RuntimeError("unforeseen")
        return describe(storage, **options)

    monkeypatch.setattr("zarrlift.jobs.census.assess.describe", fails)
    census = zarrlift.census(tmp_path)
    assert [(each.archive, each.problem.kind) for each in census.broken] == [("a.zarr", "unforeseen")]
    assert census.arrays == 1


@pytest.mark.slow
def test_a_store_and_a_glob_have_the_same_census(collection: Path, bucket: Bucket) -> None:
    files = [path for path in collection.rglob("*") if path.is_file()]
    url = bucket.put("census", {path.relative_to(collection).as_posix(): path.read_bytes() for path in files})
    expected = {**zarrlift.census(collection).to_json(), "place": "", "problems": []}
    for place in (url, f"{url}/**/*.zarr", f"{url}/*"):
        found = zarrlift.census(place, storage_options=bucket.options)
        assert found.place == place
        if not place.endswith(".zarr"):
            assert {**found.to_json(), "place": "", "problems": []} == expected
        secret = bucket.options["secret"]
        assert secret not in json.dumps(found.to_json())


def test_without_a_listing_there_are_no_amounts(collection: Path) -> None:
    census = zarrlift.census(collection, listing=False)
    assert (census.objects, census.bytes, census.cost) == (0, 0, None)
    assert census.arrays == zarrlift.census(collection).arrays
    with pytest.raises(UsageError, match="the time requires a listing"):
        zarrlift.census(collection, listing=False, rate=1e6)


def test_the_time_follows_from_the_rate() -> None:
    cost = Cost(lists=2000, reads=5000, writes=3000, bytes_read=4 * 10**9, bytes_written=2 * 10**9)
    assert (cost.at(4e6).seconds, cost.at(None).seconds) == (1000, None)


@pytest.mark.parametrize("rate", [0, -1.0, float("nan")])
def test_a_wrong_rate_is_an_error(tmp_path: Path, rate: Any) -> None:
    with pytest.raises(UsageError, match="not a rate"):
        zarrlift.census(tmp_path, rate=rate)


WRITERS = {
    "n5/java-1.5.0/old.n5": {"N5 for Java"},
    "n5/java-4.0.2/edges.n5": {"N5 for Java"},
    "n5/tensorstore/all.n5": {"tensorstore"},
    "n5/zarr-2.18/store.n5": {"zarr-python 2 or z5py"},
    "zarr_v1/zarr-1.1/root.zarr": {"zarr-python 1"},
    "zarr_v2/applications/anndata.zarr": {"anndata", "zarr-python 2 or z5py"},
    "zarr_v2/applications/series.zarr": {"bioformats2raw", "zarr-python 2 or z5py"},
    "zarr_v2/gdal/zlib.zarr": {"GDAL"},
    "zarr_v2/netcdf-4.10.1/dimensions.zarr": {"netcdf-c 4.10.1"},
    "zarr_v2/netcdf-4.9.0/zarr.zarr": {"netcdf-c 4.9.0"},
    "zarr_v2/tensorstore/arrays.zarr": {"tensorstore"},
    "zarr_v2/z5py/dots.zarr": {"zarr-python 2 or z5py"},
    "zarr_v2/zarr-2.2/nested.zarr": {"zarr-python 2 or z5py"},
    "zarr_v3/zarr-3.4/all.zarr": {"zarr-python 3"},
    "zarr_v3_draft/gdal/float.zarr": {"GDAL"},
    "zarr_v3_draft/zarr-2.13/tree.zarr": {"zarr-python 2"},
    "zarr_v3_draft/zarrita/all.zarr": set(),
}


@pytest.mark.parametrize("name", WRITERS)
def test_writers_are_recognized_in_what_they_wrote(name: str) -> None:
    assert writers(describe(open_storage(unpacked(name)))) == WRITERS[name]


def test_inspect_takes_a_census_of_what_is_not_an_archive(tmp_path: Path, capsys: Any) -> None:
    hostile = "\x1b[31mred"
    tree(tmp_path, {f"t/{name}/.zgroup": GROUP for name in ("a", hostile)})
    tree(tmp_path, {f"t/{hostile}/bad/.zarray": b"{"})

    def printed(*arguments: str, code: int = 0) -> str:
        assert main(["inspect", *arguments]) == code
        return str(capsys.readouterr().out)

    text = printed(str(tmp_path / "t"), code=1)
    assert text.startswith("Census:")
    assert "2 archives, 1 node refused." in text
    assert "\\x1b[31mred, /bad" in text
    assert "\x1b" not in text
    assert printed(str(tmp_path / "t" / "a")).endswith("1 group, 0 arrays.\n")
    assert "3 groups, 1 array" in printed(str(tmp_path / "t"), "--from", "zarr2", code=1)
    assert "1 archive." in printed(str(tmp_path / "t" / "a"), "--rate", "1MB/s")
    assert "1 archive." in printed(str(tmp_path / "*" / "a"), "--no-list")
    for wrong in (["--rate", "fast"], ["--rate", "measure"], ["--from", "zarr2", "--no-list"]):
        printed(str(tmp_path / "t"), *wrong, code=2)
    printed(str(tmp_path / "x*"), code=2)
