"""The checks of a job: documents, samples, chunks and codecs, each shown to fail where it must."""

from __future__ import annotations

import lzma
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from tests.support.documents import layout as of_layout
from tests.support.documents import v3_array
from tests.support.fixtures_index import archive
from tests.zarrlift.storage.test_processes import Cluster
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.archive.nodes import Layout
from zarrlift.conventions import xarray
from zarrlift.conventions.ome import convention
from zarrlift.core.chain.chain import Chain
from zarrlift.core.codec_spec import CodecSpec
from zarrlift.core.codecs.pipeline import Pipeline
from zarrlift.core.data_types.compare import mismatch
from zarrlift.core.grid.grid import Grid
from zarrlift.core.grid.overlap import touched
from zarrlift.errors import JobError, WorkerError
from zarrlift.jobs.ledger.ledger import Job
from zarrlift.planning.plans import ArrayPlan
from zarrlift.planning.routes import Move, Route
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.transfer.recheck import decode, recheck
from zarrlift.transfer.tasks import rewritten, sources_moved
from zarrlift.verification import elsewhere
from zarrlift.verification.before_publishing import compare_sample
from zarrlift.verification.documents import document_problems
from zarrlift.verification.sampling import MAX_INNER_CHUNKS, Sampler, a_missing_chunk, first_samples
from zarrstack.core.errors import ChunkError

BYTES = CodecSpec("bytes", {"endian": "little"})
ZSTD = CodecSpec("zstd", {"level": 3, "checksum": False})
TRANSPOSE = CodecSpec("transpose", {"order": [1, 0]})


def layout(*codecs: CodecSpec, **changes: Any) -> Layout:
    return of_layout(
        *codecs, **{"shape": (7, 5), "chunks": (3, 2), "data_type": "float32", "fill": 0.0, **changes}
    )


def document(of: Layout) -> dict[str, Any]:
    named = {"dimension_names": list(of.dimension_names)} if of.dimension_names is not None else {}
    return v3_array(
        of.shape, of.chunk_shape, of.data_type.to_json(), chunk_key_encoding=of.keys.to_json(),
        fill_value=of.fill_value, codecs=of.chain.to_json(), **named,
    )  # fmt: skip


def plan(source: Layout, destination: Layout | None = None, path: str = "a", **changes: object) -> ArrayPlan:
    target = source if destination is None else destination
    route = Route(name="relink", shared=len(source.chain.codecs), reason="test")
    move = Move(path=path, source=source, destination=target, route=route)
    return ArrayPlan(move=move, document=document(target), **changes)


def write(root: Path, of: Layout, values: np.ndarray, path: str = "a", leave_out: tuple = ()) -> LocalStorage:
    """The chunks of an array, by our own encoder."""
    storage = LocalStorage(root)
    pipeline = Pipeline(of.chain, of.chunk_shape, of.data_type)
    for index in range(of.grid.total):
        place = of.grid.coordinates(index)
        if index in leave_out:
            continue
        chunk = np.zeros(of.chunk_shape, dtype=values.dtype)
        chunk[of.grid.valid(place)] = values[of.grid.region(place)]
        storage.put(f"{path}/{of.keys.key(place)}", bytes(pipeline.encode(chunk)))
    return storage


VALUES = np.arange(35, dtype="f4").reshape(7, 5) - 3


# ----- documents


def test_a_document_that_says_what_its_layout_says_has_no_problem() -> None:
    for of in (layout(), layout(TRANSPOSE, BYTES, ZSTD, dimension_names=("y", None)), layout(fill="NaN")):
        assert document_problems(plan(of)) == ()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"shape": [7, 6]}, "shape"),
        ({"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 3]}}}, "chunk shape"),
        ({"data_type": "int32", "fill_value": 0}, "data type"),
        ({"fill_value": -0.0}, "fill value"),
        ({"fill_value": "0x7fc00001"}, "fill value"),
        ({"dimension_names": ["y", "x"]}, "dimension names"),
        ({"chunk_key_encoding": {"name": "v2", "configuration": {"separator": "/"}}}, "chunk key encoding"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}, "codec chain"),
        ({"codecs": [TRANSPOSE.to_json(), BYTES.to_json()]}, "codec chain"),
        ({"zarr_format": 2}, "zarr-python does not read"),
        ({"storage_transformers": [{"name": "mine"}]}, "storage transformers"),
        ({"fill_value": None}, "zarr-python does not read"),
        ({"codecs": [{"name": "nonsense"}]}, "zarr-python does not read"),
    ],
    ids=lambda case: next(iter(case)) if isinstance(case, dict) else case,
)
def test_a_document_that_says_something_else_is_a_problem(change: dict, word: str) -> None:
    good = plan(layout())
    problems = document_problems(replace(good, document={**good.document, **change}))
    assert len(problems) == 1
    assert word in str(problems[0])
    assert (problems[0].node, problems[0].key) == ("a", "a/zarr.json")


def test_what_identical_documents_cost_is_remembered_and_faults_are_not_lost() -> None:
    good = plan(layout())
    bad = replace(good, document={**good.document, "fill_value": 1.0})
    for _ in range(2):
        assert document_problems(good) == ()
        assert len(document_problems(bad)) == 1
    other = replace(good, move=good.move._replace(path="b", destination=layout(shape=(9, 9))))
    assert len(document_problems(other)) == 1  # its document still says (7, 5)


# ----- the sample


@given(
    st.lists(st.integers(1, 9), min_size=0, max_size=3),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_a_sample_is_of_chunks_that_are_there_and_a_missing_one_is_not(counts, rng, data) -> None:
    grid = Grid(tuple(2 * n - 1 for n in counts), (2,) * len(counts))
    kept = data.draw(st.sets(st.integers(0, grid.total - 1)))
    present = np.array(sorted(kept), dtype=np.int64)
    chosen = first_samples(grid, present, rng, random_inner_chunks=3)
    assert set(chosen) <= kept
    assert not kept or {min(kept), max(kept)} <= set(chosen)
    missing = a_missing_chunk(grid, present, rng)
    assert len(missing) == (len(kept) < grid.total)
    assert all(0 <= index < grid.total and index not in kept for index in missing)


def test_a_sample_holds_first_last_and_edge_and_one_missing_chunk() -> None:
    of = layout(shape=(100, 100), chunks=(10, 7))
    present = np.delete(np.arange(150), 40)
    chosen = Sampler("job").choose(plan(of), present)
    assert {0, 149, 40} <= set(chosen)
    assert any(of.grid.coordinates(index)[1] == 14 for index in chosen)
    assert 40 not in Sampler("job").choose(plan(of, fill_is_null=True), present)


def test_a_sample_depends_on_the_job_alone() -> None:
    of, present = layout(shape=(1000,), chunks=(1,)), np.arange(1000)
    first, again, other = (Sampler(name).choose(plan(of), present) for name in ("one", "one", "two"))
    assert first == again
    assert first != other


def test_a_job_samples_every_kind_of_array_and_stays_bounded() -> None:
    sampler, present = Sampler("job"), np.arange(9)
    kinds = [layout(BYTES), layout(BYTES, ZSTD), layout(TRANSPOSE, BYTES), layout(data_type="int32", fill=0)]
    alike = [sampler.choose(plan(layout(), path=str(n)), present) for n in range(500)]
    assert 16 < sum(map(len, alike)) <= MAX_INNER_CHUNKS
    late = [sampler.choose(plan(of), present) for of in kinds[1:]]
    assert all(late)
    huge = layout(shape=(10**6,), chunks=(10**5,))
    huge_zstd = layout(BYTES, ZSTD, shape=(10**6,), chunks=(10**5,))
    assert len(sampler.choose(plan(huge, huge_zstd), np.arange(10))) >= 1


# ----- chunks


def damage(storage: LocalStorage, key: str, how: str) -> None:
    data = bytearray(storage.get(key) or b"")
    if how == "a bit":
        data[5] ^= 1
        storage.put(key, bytes(data))
    elif how == "cut short":
        storage.put(key, bytes(data[:-3]))
    elif how == "gone":
        storage.delete(key)
    elif how == "garbage":
        storage.put(key, b"\xff" * 7)


@pytest.mark.parametrize("how", ["a bit", "cut short", "gone", "garbage"])
@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_damaged_chunk_on_either_side_is_a_problem_with_its_key(tmp_path, how: str, side: str) -> None:
    of = layout()
    stores = {name: write(tmp_path / name, of, VALUES) for name in ("source", "destination")}
    damage(stores[side], "a/1.1", how)
    problems = compare_sample(plan(of), stores["source"], stores["destination"], tuple(range(9)))
    assert [problem.key for problem in problems] == ["a/1.1"]
    assert problems[0].node == "a"


def test_a_missing_chunk_must_read_as_the_fill_value(tmp_path: Path) -> None:
    source, target = layout(fill=1.0), layout(fill=2.0)
    old = write(tmp_path / "old", source, VALUES, leave_out=(0,))
    new = write(tmp_path / "new", target, VALUES, leave_out=(0,))
    (problem,) = compare_sample(plan(source, target), old, new, (0, 1))
    assert problem.key == "a/0.0"
    assert "1.0" in str(problem.expected)
    assert compare_sample(plan(source, target, fill_is_null=True), old, new, (0, 1)) == ()


def test_a_missing_chunk_stays_missing(tmp_path: Path) -> None:
    of = layout()
    old = write(tmp_path / "old", of, VALUES * 0, leave_out=(0,))
    new = write(tmp_path / "new", of, VALUES * 0)
    (problem,) = compare_sample(plan(of), old, new, (0, 1))
    assert problem.found == "a stored chunk"


def test_many_threads_may_compare_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    of = layout(BYTES, ZSTD)
    old, new = (write(tmp_path / name, of, VALUES) for name in ("old", "new"))
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda _: compare_sample(plan(of), old, new, tuple(range(9))), range(40))
        assert set(results) == {()}


# ----- codecs, against numcodecs

V2_CODECS = [
    [],
    [{"id": "zlib", "level": 1}],
    [{"id": "bz2", "level": 1}],
    [{"id": "lz4", "acceleration": 1}],
    [{"id": "delta", "dtype": "<i4"}, {"id": "zlib", "level": 1}],
    [{"id": "shuffle", "elementsize": 4}, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}],
    [{"id": "crc32"}],
]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i4", ">i4"])
@pytest.mark.parametrize("codecs", V2_CODECS, ids=lambda codecs: "+".join(c["id"] for c in codecs) or "none")
def test_numcodecs_alone_decodes_what_numcodecs_encoded(codecs: list, dtype: str, order: str) -> None:
    values = np.arange(-2, 4, dtype=dtype).reshape(3, 2)
    payload = values.tobytes(order=order)
    data = np.frombuffer(payload, dtype)
    for config in codecs:
        own = {**config, "dtype": dtype} if "dtype" in config else config
        data = numcodecs.get_codec(own).encode(data)
    endian = "little" if dtype[0] == "<" else "big"
    chain = Chain(
        (
            *((TRANSPOSE,) if order == "F" else ()),
            CodecSpec("bytes", {"endian": endian}),
            *(
                CodecSpec(
                    f"numcodecs.{c['id']}",
                    {k: (dtype if k == "dtype" else v) for k, v in c.items() if k != "id"},
                )
                for c in codecs
            ),
        )
    )
    of = replace(layout(data_type="int32", fill=0), chain=chain)
    raw = np.asarray(data).tobytes() if not isinstance(data, bytes) else data
    assert mismatch(decode(of, raw), values) is None
    recheck(of, raw, values)
    with pytest.raises(ChunkError, match="numcodecs decodes a chunk to other values"):
        recheck(of, raw, (values + 1).astype(dtype))


def test_filters_stated_for_an_xz_stream_are_rechecked_by_what_the_stream_says() -> None:
    values = np.arange(6, dtype="<i4").reshape(3, 2)
    filters = [{"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
    stated = CodecSpec("numcodecs.lzma", {"format": 1, "check": -1, "preset": None, "filters": filters})
    of = replace(layout(data_type="int32", fill=0), chain=Chain((BYTES, stated)))
    payload = lzma.compress(values.tobytes(), format=lzma.FORMAT_XZ, filters=filters)
    recheck(of, payload, values)
    with pytest.raises(ChunkError, match="numcodecs decodes a chunk to other values"):
        recheck(of, payload, values + 1)


def test_numcodecs_own_failure_is_a_problem_not_a_crash() -> None:
    of = replace(layout(data_type="int32", fill=0), chain=Chain((BYTES, ZSTD)))
    with pytest.raises(ChunkError, match="numcodecs cannot decode a chunk that our own codecs decode"):
        recheck(of, b"garbage", np.zeros((3, 2), "i4"))


def test_a_pickle_is_never_unpickled_for_a_check() -> None:
    of = layout(CodecSpec("numcodecs.pickle"), data_type="object", fill=None)
    bomb = b"cos\nsystem\n(S'touch /tmp/never'\ntR."
    recheck(of, bomb, np.zeros((3, 2), object))


def test_strings_are_rechecked_as_values() -> None:
    values = np.array([["a", ""], ["bé", "c"], ["d", "e"]], dtype=object)
    of = layout(CodecSpec("vlen-utf8"), data_type="string", fill="")
    payload = bytes(numcodecs.VLenUTF8().encode(values.reshape(-1)))
    recheck(of, payload, values)


# `verify` finds what a faulty convention does, though asking it again gives the same answer.


def verify_after(name: str, tmp_path) -> list[tuple[str, str]]:
    source = archive(name).path
    zarrlift.migrate(source, tmp_path / "new")
    report = zarrlift.verify(source, tmp_path / "new")
    assert {problem.kind for problem in report.problems} <= {"verify-attributes"}
    return sorted({(problem.node or "", problem.message) for problem in report.problems})


@pytest.mark.parametrize("wrong", [None, 0, "AAAAAAAAAAA="], ids=["none", "another", "of a float"])
def test_a_mask_that_is_not_the_fill_value(wrong, tmp_path, monkeypatch) -> None:
    right = xarray.encoded

    def encoded(value, data_type):
        return wrong if data_type.name == "int16" else right(value, data_type)

    monkeypatch.setattr(xarray, "encoded", encoded)
    assert verify_after("zarr-2.18/people/ocean", tmp_path) == [("sst", "the mask differs")]


def test_a_mask_where_nothing_masked(tmp_path, monkeypatch) -> None:
    right = xarray._mask

    def mask(node, *more):
        return xarray._Mask(add={"_FillValue": 1}) if node.path == "is_land" else right(node, *more)

    monkeypatch.setattr(xarray, "_mask", mask)
    assert verify_after("zarr-2.18/people/ocean", tmp_path) == [("is_land", "the mask differs")]


def test_a_member_that_is_dropped(tmp_path, monkeypatch) -> None:
    right = convention._updated

    def without(value, place, replaced):
        result = right(value, place, replaced)
        if place != "/multiscales":
            return result
        return [{name: item for name, item in image.items() if name != "name"} for image in result]

    monkeypatch.setattr(convention, "_updated", without)
    found = dict(verify_after("zarr-2.18/people/cells", tmp_path))
    assert found[""] == "the attribute ome/multiscales differs"


def test_a_version_that_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(convention, "_updated", lambda value, place, replaced: value)
    nodes = {node for node, _ in verify_after("zarr-2.18/people/cells", tmp_path)}
    assert {"", "labels/cells"} <= nodes


# A full comparison on an executor finds what one in threads finds.


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two arrays, one of which is rechunked into shards."""
    group = zarr.open_group(tmp_path / "old.zarr", mode="w", zarr_format=2)
    for name, chunks in (("a", (20, 10)), ("b", (7, 30))):
        array = group.create_array(name, shape=(100, 60), chunks=chunks, dtype="<i4", fill_value=-1)
        array[:50] = np.arange(3000).reshape(50, 60)
    sections = (("b", (("chunks", "10,10"), ("shards", "2x"))),)
    recipe = zarrlift.Recipe(sections=sections)
    assert zarrlift.migrate(tmp_path / "old.zarr", tmp_path / "new.zarr", recipe=recipe).ok
    return tmp_path / "old.zarr", tmp_path / "new.zarr"


def damaged(new: Path) -> None:
    """One wrong value, one chunk that cannot be read, and one that the source does not have."""
    array = zarr.open_array(new / "a", zarr_format=3)
    array[3, 4] = 7
    array[99, 59] = 5
    next(path for path in sorted((new / "b" / "c").rglob("*")) if path.is_file()).write_bytes(b"?" * 50)


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize(("wrong", "portion"), [(False, 10**9), (True, 1)])
def test_the_same_report(wrong: bool, portion: int, places, monkeypatch) -> None:
    monkeypatch.setattr(elsewhere, "_PORTION", portion)
    if wrong:
        damaged(places[1])
    expected = zarrlift.verify(*places, full=True)
    cluster = Cluster()
    found = zarrlift.verify(*places, full=True, executor=cluster)
    assert expected.ok != wrong
    assert found == expected
    assert cluster.tasks > 10 or portion > 1


def test_before_an_array_is_published(places, tmp_path: Path, monkeypatch) -> None:
    cluster = Cluster()
    outcome = zarrlift.migrate(places[0], tmp_path / "again.zarr", executor=cluster, verify="full")
    assert outcome.ok, outcome.problems
    asked = [function.__name__ for function in cluster.functions]
    assert {"move", "compare_portion"} == set(asked)


class Gone(Executor):
    """A cluster that accepts nothing."""

    def submit(self, function, /, *arguments):
        raise ConnectionError("no scheduler")


def test_an_executor_that_is_gone_or_cannot_reach_a_store_is_an_error(places) -> None:
    with pytest.raises(WorkerError, match="no scheduler"):
        zarrlift.verify(*places, full=True, executor=Gone())
    store = MemoryStore()
    zarr.open_group(store, mode="w", zarr_format=2)
    with pytest.raises(JobError, match="a store that exists only in this one"):
        zarrlift.verify(store, places[1], full=True, executor=Gone())


# An update compares what it has written: beside that may be what users have changed, which it keeps.


RECIPES: dict[str, dict[str, Any]] = {
    "other codecs": {"codecs": "zstd:3"},
    "shards": {"shards": "2x"},
    "other chunks": {"chunks": "10,8"},
    "other chunks in shards": {"chunks": "5,5", "shards": "2x"},
}


def update_of(folder: Path, recipe: dict[str, Any]) -> ArrayPlan:
    """The plan of an update for two chunks of a hundred, one of which was deleted."""
    array = zarr.create_array(folder / "s", shape=(60, 50), chunks=(6, 5), dtype="<i4", zarr_format=2)
    array[...] = np.arange(3000).reshape(60, 50) + 1
    base = zarrlift.ArrayRecipe(**recipe)
    assert zarrlift.migrate(folder / "s", folder / "d", recipe=zarrlift.Recipe(base=base)).ok
    array[54:, 45:] = 7
    (folder / "s" / "9.8").unlink()
    assert zarrlift.update(folder / "d").ok
    with Job.open(folder / "d.zarrlift.db", write=False) as job:
        (plan,) = job.plan().arrays
    assert plan.changes is not None
    return plan


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_no_object_that_an_update_keeps_is_compared(recipe: dict[str, Any], tmp_path: Path) -> None:
    plan = update_of(tmp_path, recipe)
    present = np.delete(np.arange(100), 98)
    written, moved = set(rewritten(plan).tolist()), sources_moved(plan, present)
    seen: set[int] = set()
    for job in range(50):
        chosen = np.array(Sampler(str(job)).choose(plan, moved), dtype=np.int64)
        assert set(touched(chosen, plan.source.objects, plan.destination.objects).tolist()) <= written
        seen.update(chosen.tolist())
    assert {98, 99} <= seen, "what was written and deleted is compared"
