"""`inspect` refuses what a plan without options refuses, with the same problems and the same exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from tests.support.damaged_archives import run
from tests.support.v2_trees import array, tree

import zarrlift

GROUP = {"zarr_format": 2}
ARRAY = {**array(), "shape": [4], "chunks": [2], "dtype": "|u1", "compressor": None, "fill_value": 0}
OBJECTS = {"dtype": "|O", "fill_value": None}


def sub_array(root: Path) -> None:
    dtype = [["a", "<i4", [2]]]
    tree(root, {".zgroup": GROUP, "bad/.zarray": {**ARRAY, "dtype": dtype, "fill_value": None}})


def of_arrays(root: Path) -> None:
    document = {**ARRAY, **OBJECTS, "filters": [{"id": "vlen-array", "dtype": "<i4"}]}
    tree(root, {".zgroup": GROUP, "bad/.zarray": document})


def directory_in_a_chunks_place(root: Path) -> None:
    tree(root, {".zgroup": GROUP, "bad/.zarray": ARRAY, "bad/0/x": b""})


def objects_of_other_kinds(root: Path) -> None:
    document = {**ARRAY, **OBJECTS, "filters": [{"id": "json2"}]}
    values = np.array([1, "a"], dtype=object)
    chunk = bytes(numcodecs.JSON().encode(values))
    document["filters"] = [numcodecs.JSON().get_config()]
    tree(root, {".zgroup": GROUP, "bad/.zarray": document, "bad/0": chunk})


def an_object_without_axes(root: Path) -> None:
    codec = numcodecs.JSON()
    document = {**ARRAY, **OBJECTS, "shape": [], "chunks": [], "filters": [codec.get_config()]}
    chunk = bytes(codec.encode(np.array(1, dtype=object)))
    tree(root, {".zgroup": GROUP, "bad/.zarray": document, "bad/0": chunk})


def too_large_a_chunk(root: Path) -> None:
    tree(root, {".zgroup": GROUP, "bad/.zarray": ARRAY, "bad/0": bytes(100_000)})


def broken_document(root: Path) -> None:
    tree(root, {".zgroup": GROUP, "bad/.zarray": b"{"})


CASES: tuple[Callable[[Path], None], ...] = (
    sub_array,
    of_arrays,
    directory_in_a_chunks_place,
    objects_of_other_kinds,
    an_object_without_axes,
    too_large_a_chunk,
    broken_document,
)


def refusals(problems: Any) -> list[tuple[Any, ...]]:
    return sorted(
        (p["kind"], p["node"], p.get("key") or "", p["message"])
        for p in problems
        if p["severity"] == "refusal"
    )


@pytest.mark.parametrize("write", CASES, ids=lambda case: case.__name__)
def test_inspect_and_plan_refuse_the_same(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "source")
    shown = run("inspect", tmp_path / "source", "--json")
    planned = run("migrate", "--dry-run", tmp_path / "source", tmp_path / "out", "--json")
    assert (shown.code, planned.code) == (1, 1)
    result, plan = json.loads(shown.out)["result"], json.loads(planned.out)["result"]
    found = [p for node in result["nodes"] for p in node["problems"]] + result["problems"]
    assert refusals(found) == refusals([p for refusal in plan["refusals"] for p in refusal["problems"]]) != []
    text = run("inspect", tmp_path / "source")
    assert (text.code, "REFUSED" in text.out) == (1, True)


def test_an_archive_without_refusals_exits_0(tmp_path: Path) -> None:
    texts = {**ARRAY, **OBJECTS, "filters": [numcodecs.JSON().get_config()]}
    chunk = bytes(numcodecs.JSON().encode(np.array(["a", "b"], dtype=object)))
    entries = {".zgroup": GROUP, "a/.zarray": ARRAY, "a/0": b"12", "b/.zarray": texts, "b/0": chunk}
    tree(tmp_path / "source", entries)
    assert run("inspect", tmp_path / "source").code == 0


def test_a_refusal_of_a_convention_counts(tmp_path: Path) -> None:
    tree(tmp_path / "source", {".zgroup": GROUP, ".zattrs": {".specloc": "nowhere", "namespace": "core"}})
    codes = (
        run("inspect", tmp_path / "source").code,
        run("migrate", "--dry-run", tmp_path / "source", tmp_path / "out").code,
    )
    assert codes == (1, 1)


def test_the_refused_array_is_still_described(tmp_path: Path) -> None:
    directory_in_a_chunks_place(tmp_path)
    [bad] = [node for node in zarrlift.inspect(tmp_path).nodes if node.path == "bad"]
    assert bad.refused
    assert bad.layout is not None
    assert bad.layout.shape == (4,)
