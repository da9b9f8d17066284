"""`Log`: one event per operation, and figures that add up."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import pickle

import pytest
from tests.support.fake_clock import FakeClock
from tests.support.stores import PROTOTYPE
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarrstack.base.intercept import Call
from zarrstack.base.stack import stack
from zarrstack.base.transformer import StorageTransformer
from zarrstack.layers.log.layer import Log


def buffer(data=b"12345678"):
    return cpu.Buffer.from_bytes(data)


class Slow(StorageTransformer):
    """Each get, and each key of a listing, takes two seconds of the fake clock; the key 'bad' fails."""

    name = "slow"

    def __init__(self, store=None, *, clock=None):
        super().__init__(store)
        self.clock = clock

    async def get(self, key, prototype, byte_range=None):
        self.clock.pass_by(2)
        if key == "bad":
            raise OSError("no luck")
        return await super().get(key, prototype, byte_range)

    async def list_prefix(self, prefix):
        async for key in self._store.list_prefix(prefix):
            self.clock.pass_by(2)
            yield key


def logged(*layers, **options):
    """A log over memory with one value, and the events it gives."""
    events = []
    memory = MemoryStore({"a/c/0": buffer()})
    return stack(memory, Log(callback=events.append, **options), *layers), events


def test_an_event_says_what_was_done():
    clock = FakeClock()
    store, events = logged(Slow(clock=clock), clock=clock, label="here")
    asyncio.run(store.get("a/c/0", PROTOTYPE, RangeByteRequest(2, 5)))
    (event,) = events
    assert event == {
        "process": os.getpid(),
        "time": clock.wall(),
        "label": "here",
        "operation": "get",
        "key": "a/c/0",
        "range": (2, 5),
        "bytes": 3,
        "seconds": 2.0,
        "outcome": "ok",
    }


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (lambda s: s.get("a/c/0", PROTOTYPE), {"operation": "get", "bytes": 8}),
        (lambda s: s.get("a/c/0", PROTOTYPE, OffsetByteRequest(3)), {"range": (3, None), "bytes": 5}),
        (lambda s: s.get("a/c/0", PROTOTYPE, SuffixByteRequest(3)), {"range": (-3, None), "bytes": 3}),
        (lambda s: s.get("b", PROTOTYPE), {"outcome": "missing", "bytes": None}),
        (lambda s: s.set("b", buffer(b"123")), {"operation": "set", "bytes": 3}),
        (lambda s: s.set_if_not_exists("b", buffer()), {"operation": "set_if_not_exists", "bytes": 8}),
        (lambda s: s.delete("b"), {"operation": "delete", "bytes": None}),
        (lambda s: s.exists("b"), {"operation": "exists", "outcome": "ok"}),
        (lambda s: s.getsize("a/c/0"), {"operation": "getsize", "bytes": None}),
        (lambda s: s.delete_dir("a"), {"operation": "delete_dir", "key": "a"}),
        (lambda s: s.clear(), {"operation": "clear", "key": ""}),
        (lambda s: s.is_empty("a"), {"operation": "is_empty"}),
    ],
)
def test_each_operation_is_one_event(call, fields):
    store, events = logged()
    asyncio.run(call(store))
    (event,) = events
    assert {name: event.get(name) for name in fields} == fields


async def test_many_values_are_an_event_each():
    store, events = logged()
    await store._set_many([("b", buffer()), ("c", buffer())])
    await store.get_partial_values(PROTOTYPE, [("b", None), ("c", None), ("d", None)])
    assert [event["operation"] for event in events] == ["set"] * 2 + ["get"] * 3


@pytest.mark.parametrize("listing", ["list", "list_prefix", "list_dir"])
def test_a_listing_says_how_many_keys_it_gave(listing):
    store, events = logged()

    async def run():
        return [name async for name in getattr(store, listing)(*([] if listing == "list" else [""]))]

    assert len(asyncio.run(run())) == 1
    assert (events[0]["operation"], events[0]["keys"], events[0]["outcome"]) == (listing, 1, "ok")


def test_a_listing_takes_the_time_of_the_store_and_not_that_of_its_reader():
    clock = FakeClock()
    store, events = logged(Slow(clock=clock), clock=clock)

    async def run():
        async for _ in store.list():
            clock.pass_by(5)

    asyncio.run(run())
    assert events[0]["seconds"] == 2


def test_an_error_is_told_and_passed_on():
    clock = FakeClock()
    store, events = logged(Slow(clock=clock), clock=clock)
    with pytest.raises(OSError, match="no luck"):
        asyncio.run(store.get("bad", PROTOTYPE))
    assert (events[0]["outcome"], events[0]["error"]) == ("error", "OSError: no luck")
    assert store.figures().operations["get"].errors == 1


def test_an_absent_size_is_missing_and_no_error():
    store, events = logged()
    with pytest.raises(FileNotFoundError):
        asyncio.run(store.getsize("b"))
    assert events[0]["outcome"] == "missing"


async def test_a_cancelled_operation_is_neither():
    store, events = logged()
    task = asyncio.ensure_future(store.around(Call("get", "a"), asyncio.Event().wait))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [event["outcome"] for event in events] == ["cancelled"]


def test_json_lines_are_appended_by_every_copy(tmp_path):
    path = tmp_path / "events.jsonl"
    store = stack(MemoryStore(), Log(events=path))
    for each in (store, store.with_read_only(), pickle.loads(pickle.dumps(store))):
        asyncio.run(each.set("käse", buffer()))
        each.close()
        each.close()
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(line["operation"], line["key"], line["bytes"]) for line in lines] == [("set", "käse", 8)] * 3


def test_events_go_to_a_logger_when_nothing_else_is_said(caplog):
    store = stack(MemoryStore(), Log())
    with caplog.at_level(logging.DEBUG, "zarrstack.log"):
        asyncio.run(store.set("a", buffer()))
    asyncio.run(store.set("b", buffer()))
    (record,) = caplog.records
    assert (record.levelname, record.event["key"]) == ("DEBUG", "a")
    assert "operation='set' key='a' bytes=8" in record.message
    assert store.figures().operations["set"].count == 2


def test_what_cannot_be_written_is_counted_and_told_once(tmp_path, caplog):
    store = stack(MemoryStore(), Log(events=str(tmp_path / "no folder" / "events.jsonl")))
    for _ in range(3):
        asyncio.run(store.set("a", buffer()))
    assert store.figures().lost == 3
    assert "3 events could not be written" in str(store.figures())
    (record,) = caplog.records
    assert record.message.startswith("layer 'log': an event could not be written: [Errno 2]")
    assert not record.exc_info, "a traceback helps where a program is at fault, not a disk"


def test_a_line_that_a_disk_takes_in_part_is_whole(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data)[:7]))
    store = stack(MemoryStore(), Log(events=tmp_path / "events.jsonl"))
    asyncio.run(store.set("a", buffer()))
    assert json.loads((tmp_path / "events.jsonl").read_text())["key"] == "a"


def test_a_summary_is_a_table():
    clock = FakeClock()
    store, _ = logged(Slow(clock=clock), clock=clock)
    asyncio.run(store.get("a/c/0", PROTOTYPE))
    asyncio.run(store.get("b", PROTOTYPE))
    asyncio.run(store.set("b", buffer()))
    header, get, put = str(store.figures()).splitlines()
    assert header.split("  ")[0] == "operation"
    assert get.split() == "get 2 1 0 8 4.000 2000.000".split()
    assert put.split() == "set 1 0 0 8 0.000 0.000".split()
    store.reset()
    assert store.figures().operations == {}
