"""Zarr v3 as a source: described strictly, sharded or not, and given other codecs in a new place."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from tests.support.documents import LITTLE, v3_array, write_one_chunk
from tests.support.fixtures_index import unpack
from tests.support.unpacking import FIXTURES, unpacked
from tests.support.v2_trees import node, tree, zarr_v3
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec

import zarrlift
import zarrstack
from zarrlift.archive.nodes import ArrayNode
from zarrlift.formats.zarr_v3 import V3ArrayDescriber
from zarrlift.storage.open_storage import open_storage
from zarrstack.base.array_documents import GUARD
from zarrstack.core.chunk_keys_v3 import KeyEncoding
from zarrstack.core.errors import UsageError

GROUP: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
ARRAY = v3_array([4, 6], [2, 3])
SHARDING: dict[str, Any] = {
    "name": "sharding_indexed",
    "configuration": {
        "chunk_shape": [1, 3],
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}],
        "index_location": "start",
    },
}
CHUNK = bytes(24)


def array(*, without: str = "", **changes: Any) -> dict[str, Any]:
    """An array's document that differs from a plain one."""
    return {name: value for name, value in {**ARRAY, **changes}.items() if name != without}


def read(root: Path, entries: dict[str, Any], **options: Any):
    return zarr_v3.read(tree(root, entries), **options)


def refused(archive) -> dict[str, str]:
    """Path -> the first reason, of nodes that are refused."""
    return {
        found.path: next(str(p) for p in found.problems if p.severity == "refusal")
        for found in archive.nodes
        if found.refused
    }


# ----- documents


def test_an_array_is_described_as_it_lies(tmp_path):
    document = array(
        chunk_key_encoding={"name": "v2", "configuration": {"separator": "/"}},
        codecs=[
            {"name": "transpose", "configuration": {"order": [1, 0]}},
            {"name": "bytes", "configuration": {"endian": "big"}},
            {"name": "gzip", "configuration": {"level": 5}},
        ],
        attributes={"a": 1},
        dimension_names=["y", None],
        fill_value=7,
    )
    archive = read(tmp_path, {"zarr.json": GROUP, "g/a/zarr.json": document, "g/a/0/1": CHUNK})
    assert archive.all_problems() == ()
    assert [found.path for found in archive.nodes] == ["", "g", "g/a"]
    assert node(archive, "g").implicit
    found = node(archive, "g/a")
    layout = found.layout
    assert (layout.shape, layout.chunk_shape, layout.fill_value) == ((4, 6), (2, 3), 7)
    assert str(layout.chain) == "transpose > bytes:big > gzip:5"
    assert layout.keys == KeyEncoding("v2", "/")
    assert layout.dimension_names == ("y", None)
    assert found.attributes == {"a": 1}


INNER = SHARDING["configuration"]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (array(zarr_format=4), "zarr_format is not 3; found 4"),
        (array(node_type="table"), "node_type is neither array nor group"),
        (array(without="node_type"), "node_type is neither"),
        (array(without="shape"), "shape is missing"),
        (array(without="fill_value"), "fill_value is missing"),
        (array(shape=[-1, 6]), "shape is not a list of lengths"),
        (array(chunk_grid={"name": "regular"}), "malformed chunk grid"),
        (array(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2]}}), "number of axes"),
        (array(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 3]}}), "length 0"),
        (array(codecs="gzip"), "codecs must be a list"),
        (array(data_type="string", codecs=[], fill_value=""), "cannot hold variable-length data"),
        (array(codecs=[{"name": "bytes"}, {"name": "bytes"}]), "exactly one array-to-bytes codec"),
        (
            array(codecs=[{"name": "bytes"}, {"name": "gzip", "configuration": {"level": "high"}}]),
            "'level' is invalid",
        ),
        (array(fill_value="NaN"), "bad fill value"),
        (array(fill_value=None), "bad fill value"),
        (array(dimension_names=["x"]), "dimension_names must be a name or null per axis"),
        (array(attributes=[]), "attributes must be an object"),
        (
            array(storage_transformers=[{"name": "zarrstack.sharding"}]),
            "storage transformers are not supported here",
        ),
        (array(storage_transformers={"name": "encrypt"}), "storage_transformers must be a list"),
        (array(data_type="int128", fill_value=None, shape=[4.0, 6]), "shape is not a list of lengths"),
        (array(data_type="int128", codecs=[{"name": "bytes", "level": 1}]), "unknown members of codec"),
        (
            array(
                chunk_grid={"name": "rectilinear"},
                codecs=[{"name": "bytes"}, {"name": "zstd", "configuration": {"level": "x"}}],
            ),
            "'level' is invalid",
        ),
        (
            array(codecs=[{"name": "transpose", "configuration": {"order": [0]}}, {"name": "packbits"}]),
            "order is not a permutation",
        ),
        (
            array(codecs=[{**SHARDING, "configuration": {**INNER, "codecs": [{"name": "a"}], "b": 1}}]),
            "unknown members of sharding_indexed",
        ),
        (array(chunk_grid={"name": "rectilinear", "size": 1}), "unknown members of chunk grid"),
        (array(codecs=[{"name": "packbits"}], fill_value="x"), "bad fill value"),
        (array(codecs=[{"name": "packbits"}], dimension_names=["x"]), "dimension_names must be a name"),
        (array(codecs=[{"name": "packbits"}], comment="hello"), "unknown member 'comment'"),
        (array(**{GUARD: {"must_understand": True}}), f"unknown member '{GUARD}'"),
        (array(comment="hello"), "unknown member 'comment'"),
        (array(extension={"must_understand": True}), "unknown member 'extension'"),
        (
            array(codecs=[{**SHARDING, "configuration": {**INNER, "chunk_shape": [2, 2]}}]),
            "inner chunks do not divide the shard",
        ),
        (
            array(codecs=[{**SHARDING, "configuration": {**INNER, "index_codecs": [{"name": "gzip"}]}}]),
            "unknown index codecs",
        ),
        (array(codecs=[{**SHARDING, "configuration": {}}]), "chunk_shape is not a list"),
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"", "the document is empty"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_understood_is_refused_at_its_document(tmp_path, document, said):
    entries = {"zarr.json": GROUP, "bad/zarr.json": document, "good/zarr.json": ARRAY}
    archive = read(tmp_path, entries)
    assert said in refused(archive)["bad"]
    assert "bad/zarr.json" in refused(archive)["bad"]
    assert refused(archive).keys() == {"bad"}


@pytest.mark.parametrize(
    ("document", "unknown"),
    [
        (array(data_type="int128", fill_value="any"), "unknown data type 'int128'"),
        (
            array(data_type={"name": "zarrs.optional", "configuration": {"name": "int8"}}, fill_value=None),
            "unknown data type 'zarrs.optional'",
        ),
        (array(chunk_grid={"name": "rectilinear", "configuration": {}}), "unknown chunk grid 'rectilinear'"),
        (array(chunk_key_encoding={"name": "fanout"}), "unknown chunk key encoding 'fanout'"),
        (array(codecs=[{"name": "bytes"}, {"name": "zstdd"}]), "unknown codec 'zstdd'"),
        (array(codecs=[{"name": "packbits"}]), "unknown codec 'packbits'"),
        (
            array(codecs=[{**SHARDING, "configuration": {**INNER, "codecs": [{"name": "zfp"}]}}]),
            "unknown codec 'zfp'",
        ),
        (array(storage_transformers=[{"name": "encrypt"}]), "unknown storage transformer 'encrypt'"),
        (array(codecs=[SHARDING, {"name": "crc32c"}]), "sharding_indexed combined with other codecs"),
        (
            array(codecs=[{**SHARDING, "configuration": {**INNER, "codecs": [SHARDING]}}]),
            "shards in shards",
        ),
        (
            array(codecs=[{**SHARDING, "configuration": {**INNER, "index_codecs": [{"name": "own"}]}}]),
            "unknown index codecs of a shard",
        ),
        (
            array(data_type="int4", chunk_grid="fractal", codecs=[{"name": "own"}]),
            "unknown data type 'int4', unknown codec 'own', unknown chunk grid 'fractal'",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_valid_and_unknown_is_passed_through_by_name(tmp_path, document, unknown):
    archive = read(tmp_path, {"zarr.json": GROUP, "new/zarr.json": document})
    (problem,) = archive.all_problems()
    found = node(archive, "new")
    assert (problem.kind, problem.severity, problem.found) == ("passed-through", "note", unknown)
    assert (found.layout, found.passed.unknown, found.passed.document) == (None, unknown, document)
    assert not found.refused


def test_members_that_need_not_be_understood_are_told_and_kept_apart(tmp_path):
    optional = {"must_understand": False, "level": 1}
    archive = read(
        tmp_path, {"zarr.json": {**GROUP, "later": optional}, "a/zarr.json": array(later=optional)}
    )
    assert refused(archive) == {}
    assert [(p.severity, p.node) for p in archive.all_problems()] == [("warning", ""), ("warning", "a")]
    assert node(archive, "a").extra == {"later": optional}


def test_every_problem_of_an_array_comes_at_once(tmp_path):
    document = array(without="shape", data_type="int128", comment="hello", codecs="gzip")
    assert len(node(read(tmp_path, {"zarr.json": document})).problems) == 4


# ----- hierarchies


def test_documents_win_over_consolidated_metadata(tmp_path):
    stale = {"a": array(fill_value=9), "ghost": ARRAY}
    root = {**GROUP, "consolidated_metadata": {"kind": "inline", "metadata": stale}}
    archive = read(tmp_path, {"zarr.json": root, "a/zarr.json": ARRAY, "b/zarr.json": ARRAY})
    assert archive.consolidated
    assert node(archive, "a").layout.fill_value == 0
    assert {(p.kind, p.node) for p in archive.problems} == {
        ("consolidated", "a"),
        ("consolidated", "b"),
        ("consolidated", "ghost"),
    }


@pytest.fixture
def source(tmp_path) -> Path:
    """What zarr-python writes: plain, sharded, transposed, big-endian, text; consolidated."""
    path = tmp_path / "old.zarr"
    root = zarr.create_group(path, attributes={"title": "old"})
    values = np.arange(120).reshape(10, 12)
    options: dict[str, Any] = {"shape": (10, 12), "dtype": "uint16", "fill_value": 5}
    root.create_array("plain", chunks=(3, 5), **options)[:7] = values[:7]
    root.create_array("g/shards", chunks=(2, 3), shards=(4, 6), **options)[:5] = values[:5]
    start = ShardingCodec(
        chunk_shape=(2, 3),
        codecs=[BytesCodec(endian="big")],
        index_codecs=[BytesCodec(endian="little")],
        index_location="start",
    )
    root.create_array("g/start", chunks=(4, 6), serializer=start, compressors=None, **options)[...] = values
    keys = {"name": "v2", "separator": "."}
    root.create_array("v2", chunks=(4, 4), chunk_key_encoding=keys, **options)[...] = values
    root.create_array("named", chunks=(4, 4), dimension_names=["y", "x"], **options)[...] = values
    checked = {"compressors": [Crc32cCodec()], "serializer": BytesCodec(endian="big")}
    root.create_array("checked", chunks=(4, 4), **checked, **options)[...] = values
    root.create_array("scalar", shape=(), dtype="float64")[...] = 3.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that consolidated metadata has no specification
        zarr.consolidate_metadata(path)
    return path


def values(path: Path) -> dict[str, tuple[Any, ...]]:
    root = zarr.open_group(path, mode="r", zarr_format=3)
    return {
        name: (np.asarray(array[...]).tolist(), array.metadata.dimension_names, array.attrs.asdict())
        for name, array in root.members(max_depth=None)
        if isinstance(array, zarr.Array)
    }


@pytest.mark.parametrize("codecs", ["portable", "keep", "zstd:3", "none"])
@pytest.mark.parametrize("index", [None, "bytes", "crc32c"])
@pytest.mark.slow(one_in=11)
def test_a_copy_holds_every_value(source, tmp_path, codecs, index):
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codecs, shard_index=index))
    outcome = zarrlift.migrate(source, tmp_path / "new.zarr", recipe=recipe)
    assert outcome.ok, outcome.problems
    assert values(tmp_path / "new.zarr") == values(source)
    assert zarrlift.verify(source, tmp_path / "new.zarr", full=True).ok
    (codec,) = json.loads((tmp_path / "new.zarr/g/start/zarr.json").read_text())["codecs"]
    assert codec["configuration"]["index_location"] == "start"


def test_what_asks_for_no_change_is_copied_as_it_is(source, tmp_path):
    plan = zarrlift.plan(source, tmp_path / "new.zarr")
    assert {array.route.name for array in plan.arrays} == {"relink"}
    zarrlift.migrate(source, tmp_path / "new.zarr")
    shard = "g/shards/c/0/1"
    assert (tmp_path / "new.zarr" / shard).read_bytes() == (source / shard).read_bytes()
    assert zarrlift.inspect(tmp_path / "new.zarr").format == "zarr3"


@pytest.fixture
def layered(tmp_path) -> Path:
    """An array that zarrstack stores through transformers, in a group that is consolidated."""
    path = tmp_path / "layered.zarr"
    sharding = zarrstack.Sharding(chunks_per_shard=[2, 2])
    array = zarrstack.create_array(
        path, name="a", shape=(8, 8), chunks=(2, 2), dtype="i4", storage_transformers=[sharding]
    )
    array[...] = np.arange(64).reshape(8, 8)
    document = json.loads((path / "a/zarr.json").read_text())
    block = {"kind": "inline", "must_understand": False, "metadata": {"a": document}}
    root = {"zarr_format": 3, "node_type": "group", "attributes": {}, "consolidated_metadata": block}
    (path / "zarr.json").write_text(json.dumps(root))
    return path


@pytest.mark.parametrize("can_list", [True, False])
def test_an_array_with_storage_transformers_is_refused_in_one_sentence(layered, can_list):
    storage = open_storage(layered)
    storage.can_list = can_list
    archive = zarr_v3.read(storage)
    (problem,) = archive.all_problems()
    assert (problem.node, problem.kind) == ("a", "unsupported")
    assert "--source-through per-array" in problem.advice


def test_an_array_with_storage_transformers_is_migrated_through_them(layered, tmp_path):
    outcome = zarrlift.migrate(layered, tmp_path / "new.zarr", source_through="per-array")
    assert outcome.ok, outcome.problems
    assert outcome.problems == ()
    assert (zarr.open_array(tmp_path / "new.zarr", path="a")[...].ravel() == np.arange(64)).all()


def test_in_place_there_is_nothing_to_do(source):
    with pytest.raises(UsageError, match="this is Zarr v3 already"):
        zarrlift.migrate(source, in_place=True)
    with pytest.raises(UsageError, match="this is Zarr v3 already"):
        zarrlift.verify(source, source)


def test_a_damaged_shard_is_refused_at_its_key(source, tmp_path):
    shard = source / "g/shards/c/0/1"
    content = bytearray(shard.read_bytes())
    content[-6] ^= 1
    shard.write_bytes(content)
    outcome = zarrlift.migrate(source, tmp_path / "new.zarr")
    (problem,) = (problem for problem in outcome.problems if problem.severity == "refusal")
    assert (problem.node, problem.key) == ("g/shards", "g/shards/c/0/1")
    assert "checksum" in problem.message
    assert not (tmp_path / "new.zarr/g/shards/zarr.json").exists()


def test_of_many_faulty_keys_of_consolidated_metadata_the_first_are_named_and_the_others_counted(tmp_path):
    faulty = {f"/{number}": GROUP for number in range(250)}
    root = {**GROUP, "consolidated_metadata": {"kind": "inline", "metadata": {"a": ARRAY, **faulty}}}
    storage = open_storage(tree(tmp_path / "many", {"zarr.json": root, "a/zarr.json": ARRAY}).root)
    *named, last = zarr_v3.read(storage).problems
    assert [problem.found for problem in named] == [f'the key "/{number}"' for number in range(100)]
    assert last.message == "150 more times: a key in consolidated metadata is not a valid node path"


def test_a_store_that_cannot_list_is_read_by_its_consolidated_metadata(source, tmp_path):
    storage = open_storage(source)
    known = zarr_v3.read(storage)
    storage.can_list = False
    found = zarr_v3.read(storage)
    assert [n.path for n in found.nodes] == [n.path for n in known.nodes]
    layouts = [[n.layout for n in side.nodes if isinstance(n, ArrayNode)] for side in (found, known)]
    assert layouts[0] == layouts[1]
    bare = open_storage(tree(tmp_path / "bare", {"zarr.json": GROUP, "a/zarr.json": ARRAY}).root)
    bare.can_list = False
    with pytest.raises(UsageError, match="cannot be found"):
        zarr_v3.read(bare)


STRUCT = {
    "name": "struct",
    "configuration": {"fields": [{"name": "a", "data_type": "int32"}, {"name": "b", "data_type": "float64"}]},
}
"""As zarr-python 3.4.2 writes it; 3.1.6 knows `structured` alone."""


@pytest.mark.parametrize(
    ("codecs", "route"), [("portable", "relink"), ("keep", "relink"), ("gzip:1", "recode")]
)
@pytest.mark.parametrize(("fill", "missing"), [({"a": 1, "b": 2.5}, (1, 2.5)), ("", (0, 0.0))])
def test_structs_are_written_under_the_name_that_every_zarr_python_reads(
    codecs: str, route: str, fill: Any, missing: tuple[int, float], tmp_path: Path
) -> None:
    stored = np.array([(3, 0.5), (-1, 1e9)], "<i4,<f8")
    document = v3_array((3,), (2,), STRUCT, fill_value=fill, codecs=[LITTLE])
    write_one_chunk(tmp_path / "old", document, stored.tobytes())
    recipe = zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs=codecs))
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new", recipe=recipe)
    assert outcome.ok, outcome.problems
    assert outcome.plan is not None
    assert [array.route.name for array in outcome.plan.arrays] == [route]
    assert json.loads((tmp_path / "new/zarr.json").read_bytes())["data_type"]["name"] == "structured"
    assert zarr.open_array(tmp_path / "new", mode="r")[...].tolist() == [*stored.tolist(), missing]
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok


REVERSED = {"name": "transpose", "configuration": {"order": [1, 0]}}
ROUNDED = {"name": "bitround", "configuration": {"keepbits": 3}}


@pytest.mark.parametrize(
    ("data_type", "codecs", "fill", "stored"),
    [
        ("float32", [ROUNDED, LITTLE], 1.5, np.array([100, -7], "<f4")),
        ("int32", [ROUNDED, LITTLE], 3, np.array([100, -7], "<i4")),
        ("complex_float32", [LITTLE], [1, 2], np.array([1j, 2], "<c8")),
        ("complex_float64", [LITTLE], [1, 2], np.array([1j, 2], "<c16")),
        ("int16", [{**LITTLE, "name": "endian"}], 3, np.array([1, -2], "<i2")),
        ("r16", [{"name": "bytes"}], [1, 255], np.array([b"ab", b"\xff\0"], "V2")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_names_that_only_other_writers_use_are_read(
    data_type: str, codecs: list[Any], fill: Any, stored: np.ndarray[Any, Any], tmp_path: Path
) -> None:
    """Those of zarrs and tensorstore, and of drafts, which are written under names that zarr-python reads."""
    document = v3_array((3,), (2,), data_type, fill_value=fill, codecs=codecs)
    write_one_chunk(tmp_path / "old", document, stored.tobytes())
    outcome = zarrlift.migrate(tmp_path / "old", tmp_path / "new")
    assert outcome.ok, outcome.problems
    missing = bytes(fill) if data_type == "r16" else complex(*fill) if isinstance(fill, list) else fill
    expected = np.append(stored, np.array([missing], stored.dtype))
    assert zarr.open_array(tmp_path / "new", mode="r")[...].tobytes() == expected.tobytes()
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok


def test_bytes_of_variable_length_are_too() -> None:
    found = V3ArrayDescriber().describe(
        {**ARRAY, "data_type": "variable_length_bytes", "codecs": [{"name": "vlen-bytes"}], "fill_value": ""}
    )
    assert found.layout is not None
    assert found.layout.data_type.name == "bytes"


@pytest.mark.parametrize("codecs", [None, [], [REVERSED], [{"name": "gzip", "configuration": {"level": 1}}]])
def test_numbers_without_an_array_to_bytes_codec_are_little_endian(codecs: Any, tmp_path: Path) -> None:
    """As in the drafts until 2023, and in GDAL before 3.11."""
    values = np.arange(1, 7, dtype="<u2").reshape(2, 3)
    payload = values.tobytes("F" if codecs == [REVERSED] else "C")
    document = v3_array((2, 3), (2, 3), "uint16", codecs=codecs)
    if codecs is None:
        del document["codecs"]
    elif codecs and codecs != [REVERSED]:
        payload = gzip.compress(payload)
    write_one_chunk(tmp_path / "old", document, payload)
    assert zarrlift.migrate(tmp_path / "old", tmp_path / "new").ok
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "new", mode="r")[...], values)
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok


@pytest.mark.parametrize("shape", [(6,), (2, 4, 6)], ids=str)
@pytest.mark.parametrize("sharded", [False, True], ids=["chunks", "shards"])
@pytest.mark.parametrize("letter", ["C", "F"])
def test_orders_of_transpose_by_letter_become_permutations(letter, sharded, shape, tmp_path):
    values = np.arange(1, 1 + np.prod(shape, dtype=int), dtype="u2").reshape(shape)
    codecs: list[dict[str, Any]] = [
        {"name": "transpose", "configuration": {"order": letter}},
        {"name": "bytes", "configuration": {"endian": "little"}},
    ]
    payload = values.tobytes(letter)
    if sharded:
        payload += np.array([0, len(payload)], dtype="<u8").tobytes()
        inner = {"chunk_shape": [*shape], "codecs": codecs, "index_codecs": [LITTLE], "index_location": "end"}
        codecs = [{"name": "sharding_indexed", "configuration": inner}]
    document = v3_array([*shape], [*shape], "uint16", codecs=codecs)
    key = "/".join(["c", *"0" * len(shape)])
    tree(tmp_path / "old", {"zarr.json": document, key: payload})

    assert zarrlift.migrate(tmp_path / "old", tmp_path / "new").ok

    np.testing.assert_array_equal(zarr.open_array(tmp_path / "new", mode="r")[...], values)
    assert f'"{letter}"' not in (tmp_path / "new/zarr.json").read_text()
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok


# What zarr-python 3.0 wrote and no other program reads, in both formats, has the values that it reads.


CASES = [
    pytest.param(version, name, id=f"{version}-{name}")
    for version in ("3.0.0", "3.0.10")
    for name in ("v2.zarr", "v3.zarr")
]


def as_items(values: np.ndarray) -> list[object]:
    """Numbers of dates, other items as Python has them; NaN as a text, which equals itself."""
    flat = np.asarray(values).reshape(-1)
    flat = flat.view("i8") if flat.dtype.kind == "M" else flat
    return [str(item) if item != item else item for item in flat.tolist()]  # noqa: PLR0124


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(("version", "name"), CASES)
def test_every_array_has_the_values_that_its_writer_reads(version: str, name: str, tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / f"zarr_v3/zarr-{version}/values.json").read_text())[name]
    source, target = unpacked(f"zarr_v3/zarr-{version}/{name}"), tmp_path / "new.zarr"
    outcome = zarrlift.migrate(source, target, verify="full")
    assert outcome.ok, outcome
    assert {array.route.name for array in outcome.plan.arrays} == {"relink"}
    result = zarr.open_group(target, mode="r")
    viewed = zarrlift.open(source)
    for path, entry in expected.items():
        wanted = as_items(unpack(entry["read"]))
        if "written" in entry:  # it cuts items of a type without a length, which it stores whole
            written = as_items(unpack(entry["written"]))
            wanted[: len(written)] = written
            wanted[len(written) :] = [b"long bytes" if path == "bytes_fill" else b""] * len(written)
        wanted = ["" if item == 0 and path == "texts" else item for item in wanted]  # 0 is no text
        assert as_items(result[path][...]) == wanted, path
        assert as_items(viewed[path][...]) == wanted, path
