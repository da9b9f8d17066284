"""What is under way while something else is worked on: in order, within its bytes, nothing left behind."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st
from tests.zarrlift.storage.conftest import files, fill
from zarr.abc.store import RangeByteRequest
from zarr.storage import MemoryStore, WrapperStore

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.archive.shard_reader import spans_of
from zarrlift.storage.base import PART, WRITE_BEHIND
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.remote.async_requests import WriteBehind, read_ahead
from zarrlift.storage.remote.bucket_storage import part_size
from zarrlift.storage.remote.store_storage import StoreStorage
from zarrlift.storage.remote.store_writer import StoreWriter
from zarrlift.storage.writer import DestinationError
from zarrstack.system.this import system

# ----- the window


@given(
    sizes=st.lists(st.integers(0, 50), max_size=60),
    most=st.integers(1, 100),
    answered=st.randoms(use_true_random=False),
)
def test_a_window_gives_every_answer_in_order_and_never_holds_too_much(
    sizes: list[int], most: int, answered: Any
) -> None:
    asked: list[int] = []
    given_out: list[int] = []

    def ask(part: Sequence[int]) -> list[Future[int]]:
        asked.extend(part)
        held = [sizes[item] for item in asked[len(given_out) :]]
        assert sum(held) <= most or len([size for size in held if size]) == 1
        futures: list[Future[int]] = [Future() for _ in part]
        for item, future in answered.sample(list(zip(part, futures, strict=True)), len(part)):
            future.set_result(item)
        return futures

    for future in read_ahead(range(len(sizes)), lambda item: sizes[item], ask, most=most):
        assert future.result() == len(given_out)
        given_out.append(future.result())
    assert given_out == asked == list(range(len(sizes)))


def test_what_is_under_way_is_cancelled_when_nobody_wants_it() -> None:
    futures: list[Future[None]] = []

    def ask(part: Sequence[int]) -> list[Future[None]]:
        futures.extend(Future() for _ in part)
        return futures[-len(part) :]

    coming = read_ahead(range(100), lambda _: 1, ask, most=10)
    next(coming)
    coming.close()
    assert [future.cancelled() for future in futures] == [False, *[True] * 9]


# ----- stores that answer when a test lets them


class Held(WrapperStore[MemoryStore]):
    """A store that answers nothing until so many requests are there together."""

    def __init__(self, store: MemoryStore, together: int) -> None:
        super().__init__(store)
        self.together = together
        self.most = self.now = 0
        self._enough: asyncio.Event | None = None

    async def _meet(self) -> None:
        """Go on only when `together` requests are here at once."""
        if self._enough is None:
            self._enough = asyncio.Event()
        self.now += 1
        self.most = max(self.most, self.now)
        if self.now >= self.together:
            self._enough.set()
        await asyncio.wait_for(self._enough.wait(), 30)
        self.now -= 1

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if "/c/" in key or key[-1].isdigit():
            await self._meet()
        return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        if "/c/" in key or key[-1].isdigit():
            await self._meet()
        await super().set(key, value)


class HeldRanges(Held):
    """The same for ranges of a shard alone, not for its size and index."""

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if isinstance(byte_range, RangeByteRequest):
            return await super().get(key, prototype, byte_range)
        return await self._store.get(key, prototype, byte_range)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    array = zarr.create_array(
        tmp_path / "old.zarr", name="a", shape=(40, 40), chunks=(4, 10), dtype="<i4", zarr_format=2
    )
    array[:] = np.arange(1600).reshape(40, 40)
    return tmp_path / "old.zarr"


def one_worker(source: Any, destination: Any, tmp_path: Path, **wish: Any) -> zarrlift.Outcome:
    recipe = Recipe(base=ArrayRecipe(**wish))
    return zarrlift.migrate(
        source, destination, recipe=recipe, workers=1, verify="none", job=tmp_path / f"{uuid.uuid4()}.db"
    )


WISHES = [{}, {"shards": "2x"}, {"chunks": "5,8"}, {"codecs": "zstd"}]


@pytest.mark.slow(one_in=5)
@pytest.mark.usefixtures("no_samples")
@pytest.mark.parametrize("wish", WISHES, ids=str)
def test_one_worker_reads_many_objects_at_once(wish: dict[str, Any], numbers: Path, tmp_path: Path) -> None:
    store = Held(fill(MemoryStore(), numbers), together=4)
    outcome = one_worker(store, tmp_path / "new.zarr", tmp_path, **wish)
    assert outcome.ok, outcome.problems
    assert (zarr.open_array(tmp_path / "new.zarr/a")[:].ravel() == np.arange(1600)).all()


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("wish", [wish for wish in WISHES if "shards" not in wish], ids=str)
def test_one_worker_writes_many_objects_at_once(wish: dict[str, Any], numbers: Path, tmp_path: Path) -> None:
    store = Held(MemoryStore(), together=4)
    outcome = one_worker(numbers, store, tmp_path, **wish)
    assert outcome.ok, outcome.problems
    assert (zarr.open_array(store._store, path="a", mode="r")[:].ravel() == np.arange(1600)).all()


@pytest.mark.usefixtures("no_samples")
def test_ranges_of_one_shard_are_read_at_once(numbers: Path, tmp_path: Path, monkeypatch: Any) -> None:
    assert one_worker(numbers, tmp_path / "shards.zarr", tmp_path, shards="40,40").ok
    monkeypatch.setattr(
        "zarrlift.archive.shard_reader._SPAN", 1
    )  # so that each inner chunk is a range of its own
    store = HeldRanges(fill(MemoryStore(), tmp_path / "shards.zarr"), together=9)
    outcome = one_worker(store, tmp_path / "new.zarr", tmp_path, shards="none")
    assert outcome.ok, outcome.problems
    assert store.most >= 9
    assert (zarr.open_array(tmp_path / "new.zarr/a")[:].ravel() == np.arange(1600)).all()


# ----- failures


class Failing(WrapperStore[MemoryStore]):
    """A store in which the object with a certain name can neither be read nor written."""

    bad = "nothing"
    """Of the class: a copy for reading, which zarr makes to verify, begins with this one."""
    error: Callable[[], Exception] = PermissionError

    async def get(self, key: str, prototype: Any, byte_range: Any = None) -> Any:
        if key.endswith(self.bad):
            raise self.error()
        return await super().get(key, prototype, byte_range)

    async def set(self, key: str, value: Any) -> None:
        if key.endswith(self.bad):
            raise self.error()
        await super().set(key, value)


def test_one_object_that_cannot_be_read_hides_no_other(numbers: Path, tmp_path: Path) -> None:
    store = Failing(fill(MemoryStore(), numbers))
    store.bad = "3.2"
    outcome = one_worker(store, tmp_path / "new.zarr", tmp_path)
    assert [(p.kind, p.key) for p in outcome.problems] == [("storage", "a/3.2")]
    chunks = [name for name in files(tmp_path / "new.zarr") if "/c/" in name]
    assert len(chunks) == 39


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("wish", [{}, {"codecs": "zstd"}, {"chunks": "4,20"}], ids=str)
def test_an_object_that_cannot_be_written_ends_the_task_and_is_written_on_resuming(
    wish: dict[str, Any], numbers: Path, tmp_path: Path
) -> None:
    store = Failing(MemoryStore())
    store.bad = "c/3/1"
    job = tmp_path / "job.db"
    recipe = Recipe(base=ArrayRecipe(**wish))
    outcome = zarrlift.migrate(numbers, store, recipe=recipe, job=job)
    assert not outcome.ok
    assert [(p.kind, p.key) for p in outcome.problems] == [("storage", "a/c/3/1")]
    assert "a/zarr.json" not in store._store._store_dict
    store.bad = "nothing"
    assert zarrlift.migrate(numbers, store, recipe=recipe, job=job).ok
    assert (zarr.open_array(store._store, path="a", mode="r")[:].ravel() == np.arange(1600)).all()


def test_nothing_is_recorded_before_it_is_written() -> None:
    """At the end of `behind` every object is there, or its error is raised."""
    store = Failing(MemoryStore())
    writer = StoreWriter(StoreStorage(store), "0123abcd")
    with writer.behind():
        for number in range(300):
            writer.write(f"a/{number}", bytes(1000))
    assert len(store._store._store_dict) == 300
    store.bad = "a/7"

    def some() -> None:
        with writer.behind():
            for number in range(20):
                writer.write(f"a/{number}", b"new")

    with pytest.raises(DestinationError) as raised:
        some()
    assert raised.value.problem.key == "a/7"
    writer.write("b", b"x")  # outside, it is there when the call returns
    assert "b" in store._store._store_dict


def test_what_one_thread_sends_is_no_matter_of_another() -> None:
    store = Failing(MemoryStore())
    store.bad = "bad"
    writer = StoreWriter(StoreStorage(store), "0123abcd")

    def both() -> None:
        with writer.behind():
            writer.write("bad", b"")
            thread = threading.Thread(target=lambda: writer.write("good", b"x"))
            thread.start()
            thread.join()
            assert "good" in store._store._store_dict

    with pytest.raises(DestinationError):
        both()


@given(st.lists(st.integers(0, WRITE_BEHIND // 2), max_size=12))
def test_what_is_sent_holds_no_more_than_is_said(sizes: list[int]) -> None:
    class Slow:
        """Ends a request only when it is waited for."""

        def __init__(self) -> None:
            self.under_way: list[int] = []

        def put(self, key: str, data: Any) -> Any:
            self.under_way.append(len(data))
            assert sum(self.under_way) <= WRITE_BEHIND
            return Ending(self, len(data))

    class Ending:
        def __init__(self, slow: Slow, size: int) -> None:
            self.slow, self.size = slow, size

        def done(self) -> bool:
            return False

        def result(self) -> None:
            self.slow.under_way.remove(self.size)

    slow = Slow()
    sending = WriteBehind(slow)  # type: ignore[arg-type]
    for size in sizes:
        sending.send("a", bytes(size))
    sending.finish()
    assert slow.under_way == []


# ----- ranges of a shard


@given(st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 50_000)), min_size=1, max_size=30))
def test_ranges_hold_every_inner_chunk_once_and_little_else(leaves: list[tuple[int, int]]) -> None:
    offsets, lengths, at = [], [], 0
    for skip, length in leaves:
        offsets.append(at + skip)
        lengths.append(length)
        at = offsets[-1] + length
    spans = list(spans_of(offsets, lengths))
    covered = [place for span in spans for place in range(span.first, span.end)]
    assert covered == list(range(len(leaves)))
    data = np.random.default_rng(0).bytes(at)
    for span in spans:
        wanted = sum(lengths[span.first : span.end])
        assert span.stop - span.start <= max(2 * wanted, wanted + (64 << 10))
        cut = span.cut(data[span.start : span.stop], list(range(len(leaves))), offsets, lengths)
        for inner_chunk, payload, *_ in cut:
            assert payload == data[offsets[inner_chunk] : offsets[inner_chunk] + lengths[inner_chunk]]


# ----- what a file system is told


def test_a_file_is_sent_by_its_name_where_the_file_system_can(tmp_path: Path, monkeypatch: Any) -> None:
    sent: list[str] = []

    def put_file(self: Any, lpath: str, rpath: str, **options: Any) -> None:
        sent.append(lpath)
        self.pipe_file(rpath, Path(lpath).read_bytes())

    monkeypatch.setattr(MemoryFileSystem, "put_file", put_file)
    storage = open_storage(f"memory://{uuid.uuid4()}/out", mode="w")
    (tmp_path / "shard").write_bytes(b"content")
    with open(tmp_path / "shard", "rb") as file:
        storage.put_file("a/c/0", file, 7)
    assert storage.get("a/c/0") == b"content"
    assert sent == ([str(tmp_path / "shard")] if system.reopens else [])


def test_parts_grow_where_an_object_has_more_than_a_store_takes() -> None:
    assert part_size(10**9) == PART
    size = 5 * 10**12
    assert -(-size // part_size(size)) <= 10_000


# ----- memory


@pytest.fixture
def store_numbers(numbers: Path) -> Any:
    return fill(f"memory://{uuid.uuid4()}/old.zarr", numbers)


def test_the_plan_counts_what_is_under_way(numbers: Path, store_numbers: str, tmp_path: Path) -> None:
    def memory(source: Any, destination: Any, **wish: Any) -> int | None:
        plan = zarrlift.plan(source, destination, recipe=Recipe(base=ArrayRecipe(**wish)))
        return plan.arrays[0].memory

    there = f"memory://{uuid.uuid4()}/new.zarr"
    assert memory(numbers, tmp_path / "new.zarr") is None
    one = memory(store_numbers, tmp_path / "new.zarr")
    both = memory(store_numbers, there)
    assert one is not None
    assert both is not None
    assert (16 << 20) < one < both < (64 << 20)
    for wish in ({"shards": "2x"}, {"chunks": "5,8"}):
        here = memory(numbers, tmp_path / "new.zarr", **wish)
        through = memory(store_numbers, there, **wish)
        assert here is not None
        assert through is not None
        assert through - here >= 40 << 20
