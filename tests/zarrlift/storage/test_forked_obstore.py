"""Processes that used obstore: in a child forked later, where its stores wait for ever; at the end."""

from __future__ import annotations

import subprocess
import sys

import pytest
from zarr.abc.store import Store
from zarr.storage import ObjectStore

from zarrstack.base.forked import _REQUESTS, ForkedStore

SCRIPT = """
import os, pickle, signal, sys, warnings
from pathlib import Path
import obstore.store, zarr, zarrlift
from zarr.storage import LoggingStore, MemoryStore, ObjectStore
from zarrstack import Cache, Log, Overlay, Retry, stack

warnings.simplefilter("ignore", DeprecationWarning)
folder = sys.argv[1]

def raw():
    return ObjectStore(obstore.store.LocalStore(folder))

def read(store):
    return int(zarr.open_array(store, mode="r", zarr_format=3)[1])

def forked(act):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            print(act())
        except Exception as error:
            print(type(error).__name__, "forked after obstore was used" in str(error))
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, "it waits for ever"

if __name__ == "__main__":
    layers = stack(raw(), Retry(), Cache())
    forked(lambda: read(layers))
    print(read(layers))
    array = zarr.open_array(stack(raw(), Log()), mode="r")
    view = zarrlift.open(raw())
    print(view[1])
    for act in (
        lambda: read(layers),
        lambda: array[1],
        lambda: read(stack(LoggingStore(raw(), log_level="ERROR"), Cache())),
        lambda: read(stack(MemoryStore(), Overlay(writes=raw()))),
        lambda: view[1],
        lambda: zarrlift.open(raw())[1],
        lambda: forked(lambda: read(layers)),
        lambda: (Path("pickled").write_bytes(pickle.dumps(layers)), str(layers))[1],
    ):
        forked(act)
    print(read(layers), read(pickle.loads(Path("pickled").read_bytes())))
"""
REFUSED = "StorageError True\n"


def test_a_child_forked_after_obstore_was_used_gets_an_error(tmp_path):
    import zarr

    zarr.create_array(tmp_path / "a", shape=(4,), chunks=(2,), dtype="i4")[:] = 7
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, tmp_path / "script.py", tmp_path / "a"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = f'retry > cache > object_store://LocalStore("{tmp_path / "a"}")\n'
    assert done.stdout == "7\n7\n7\n" + 7 * REFUSED + "None\n" + shown + "7 7\n"


def test_every_request_of_a_store_is_refused():
    asks = {name for name in vars(Store) if callable(getattr(Store, name))} | {"_ensure_open"}
    harmless = {"open", "close", "with_read_only", "_check_writable", "_open"}
    synchronous = {name for name in asks if name.endswith("_sync")}
    own = {name for name in asks if name.startswith("__")} | {"_get_bytes", "_get_json", "_get_bytes_sync"}
    assert asks - harmless - synchronous - own <= set(_REQUESTS)
    assert not any(hasattr(ObjectStore, name) for name in ("get_sync", "set_sync", "delete_sync"))
    assert all(getattr(ForkedStore, name, None) for name in _REQUESTS)


LAST = """
import asyncio, sys
import obstore
from obstore.store import S3Store
from zarrlift.storage.remote import event_loop

keys = {"access_key_id": "k", "secret_access_key": "s", "region": "us-east-1"}
store = S3Store("bucket", endpoint=sys.argv[1], **keys, client_options={"allow_http": True})

async def put():
    await asyncio.gather(*(obstore.put_async(store, f"{number}", b"") for number in range(64)))

event_loop.run(put())
"""


@pytest.mark.slow
def test_a_process_that_ends_after_its_last_request_is_not_aborted(our_bucket, tmp_path):
    """Without the last turn of obstore's threads, one in eight is."""
    (tmp_path / "script.py").write_text(LAST)
    words = [sys.executable, tmp_path / "script.py", our_bucket.endpoint]
    codes = [subprocess.run(words, check=False).returncode for _ in range(20)]
    assert codes == [0] * 20
