"""A plan foretells the requests to stores by class: a server counts those of the whole migration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from aiohttp import web
from tests.support.bucket import Bucket
from tests.support.job_archives import tree, write_archive
from tests.support.unpacking import unpacked

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.transfer.relink_server_side import IN_ONE_READ

END = {"in.zarr": "source", "out.zarr": "destination"}
"""Prefix in the bucket -> end of the migration."""


def write_large(path: Path) -> Path:
    """Chunks that a store copies itself, beside small ones, and more than one page of a listing."""
    root = zarr.open_group(path, mode="w", zarr_format=2)
    for name, length, number in (("large", 2 * IN_ONE_READ, 3), ("small", 7, 2), ("many", 1, 1200)):
        array = root.create_array(
            name, shape=(length * number,), chunks=(length,), dtype="u1", compressors=None
        )
        array[:] = np.arange(length * number) % 251 + 1
    return path


def write_parts(path: Path) -> Path:
    """A chunk that is sent in parts."""
    size = 11 << 20
    array = zarr.create_array(path, shape=size, chunks=size, dtype="u1", compressors=None, zarr_format=2)
    array[:] = 3
    return path


def write_shards(path: Path) -> Path:
    """Shards of Zarr v3."""
    array = zarr.create_array(path, shape=(60, 60), chunks=(5, 5), shards=(20, 20), dtype="i4")
    array[:] = np.arange(3600).reshape(60, 60)
    return path


def write_n5(_: Path) -> Path:
    """Every block shape and codec of N5, in nested groups."""
    return unpacked("n5/zarr-2.18/store.n5")


Write = Callable[[Path], Path]
SHARDED = ArrayRecipe(codecs="zstd:3", shards="auto")
EXACT: Mapping[str, tuple[Write, ArrayRecipe, dict[str, Any]]] = {
    "small and recoded chunks": (write_archive, ArrayRecipe(), {}),
    "copies by the store": (write_large, ArrayRecipe(), {}),
    "into shards": (write_archive, SHARDED, {}),
    "other chunks": (write_archive, ArrayRecipe(chunks=(3, -1)), {}),
    "shards that stay": (write_shards, ArrayRecipe(), {}),
    "shards recoded": (write_shards, ArrayRecipe(codecs="zstd:3"), {}),
    "shards taken apart": (write_shards, ArrayRecipe(shards="none"), {}),
    "shards recoded and compared": (write_shards, ArrayRecipe(codecs="zstd:3"), {"verify": "full"}),
    "n5": (write_n5, ArrayRecipe(), {}),
    "in place": (write_archive, ArrayRecipe(), {"in_place": True}),
    "in place and compared": (write_archive, ArrayRecipe(), {"in_place": True, "verify": "full"}),
    "from a directory": (write_archive, ArrayRecipe(), {"source": "directory"}),
    "from a directory in parts": (write_parts, ArrayRecipe(), {"source": "directory"}),
    "to a directory": (write_archive, ArrayRecipe(), {"destination": "directory"}),
    "with an RO-Crate": (write_archive, ArrayRecipe(), {"ro_crate": True}),
}
SAMPLED = {"verify": "sample"}
BOUNDED: Mapping[str, tuple[Write, ArrayRecipe, dict[str, Any], int]] = {
    # Which chunks are compared is drawn, up to seven of a kind, one of them missing; three kinds at most.
    "a sample": (write_archive, ArrayRecipe(), SAMPLED, 6),
    "a sample of copies": (write_large, ArrayRecipe(), SAMPLED, 6),
    "a sample of shards": (write_archive, SHARDED, SAMPLED, 12),
    "a sample in place": (write_archive, ArrayRecipe(), {**SAMPLED, "in_place": True}, 12),
    # An array without chunks has no directory `c`.
    "every value": (write_archive, ArrayRecipe(), {"verify": "full"}, 1),
    # Directories without blocks are not listed.
    "every value of n5": (write_n5, ArrayRecipe(), {"verify": "full"}, 20),
}
CASES = {name: (*case, 0) for name, case in EXACT.items()} | BOUNDED


def counting(bucket: Bucket) -> dict[str, Counter[str]]:
    """The requests to each end from now on by class, with the bytes of chunks that the server received."""
    counts = {end: Counter[str]() for end in END.values()}
    answer = bucket._answer

    async def counted(request: web.Request) -> web.StreamResponse:
        content, key = (await request.read()), request.match_info["path"]
        name = {"POST": "put"}.get(request.method, request.method.lower())
        if "list-type" in request.query:
            name, key = "list", request.query["prefix"]
        elif "delete" in request.query:
            name, key = "delete", content.decode()
        elif "x-amz-copy-source" in request.headers:
            name = "copy"
        end = counts[next(END[prefix] for prefix in END if f"{prefix}/" in key)]
        end[name] += 1
        if name == "put" and key[-1].isdigit() and "uploads" not in request.query and request.method == "PUT":
            end["bytes_written"] += len(content)
        response = await answer(request)
        if name == "get" and key[-1].isdigit() and isinstance(response, web.Response):
            end["bytes_read"] += len(response.body or b"")
        return response

    bucket._answer = counted  # type: ignore[method-assign]
    return counts


@pytest.mark.slow(one_in=6)
@pytest.mark.parametrize("name", CASES)
def test_the_forecast_is_what_the_server_counts(name: str, bucket: Bucket, tmp_path: Path) -> None:
    write, recipe, given, apart = CASES[name]
    path, options = write(tmp_path / "old.zarr"), {"verify": "none", **given}
    source: Any = bucket.put("in.zarr", tree(path))
    destination: Any = "s3://bucket/out.zarr"
    if options.pop("source", None):
        source = path
    else:
        options["storage_options"] = bucket.options
    if options.get("in_place"):
        destination = None
    elif options.pop("destination", None):
        destination = tmp_path / "out"
    else:
        options["dest_storage_options"] = bucket.options
    options["recipe"] = Recipe(base=recipe)
    plan = zarrlift.plan(source, destination, **options)
    before = len(bucket.stored("in.zarr"))
    counts = counting(bucket)
    assert zarrlift.migrate(source, destination, job=tmp_path / "x.db", **options).ok
    assert plan.requests is not None
    for end, counted in counts.items():
        requests = getattr(plan.requests, end)
        assert (requests is None) == (not counted)
        foretold = {} if requests is None else requests.to_json()
        sizes = {size: foretold.pop(size, 0) for size in ("bytes_read", "bytes_written")}
        differences = {each: foretold[each] - counted[each] for each in foretold}
        assert all(abs(difference) <= apart for difference in differences.values()), (end, differences)
        if name == "copies by the store":
            assert sizes == {size: counted[size] for size in sizes}
    if not isinstance(destination, Path):
        added = len(bucket.stored("in.zarr")) - before + len(bucket.stored("out.zarr"))
        assert plan.requests.objects == added


def test_a_plan_between_directories_has_no_requests(tmp_path: Path) -> None:
    assert zarrlift.plan(write_shards(tmp_path / "old.zarr"), tmp_path / "new.zarr").requests is None
