"""One object is replaced only if it has the known version: on servers that others wrote too."""

from __future__ import annotations

from tests.support.bucket import Bucket

from zarrlift.storage.remote.stored_object import StoredObject


def test_only_the_known_version_is_replaced(bucket: Bucket) -> None:
    mine = StoredObject("s3://bucket/jobs/one", bucket.options)
    other = StoredObject("s3://bucket/jobs/one", bucket.options)
    assert mine.read() is None
    assert mine.version() is None
    first = mine.replace(b"first", None).result()
    assert first is not None
    assert mine.read() == (b"first", first)
    assert other.replace(b"created by another", None).result() is None

    second = other.replace(b"second", first).result()
    assert second not in (None, first)
    assert mine.replace(b"of a process that was left behind", first).result() is None
    assert other.is_compared(b"second", second or {})
    assert mine.read() == (b"second", second)
    assert mine.version() == second

    mine.delete()
    assert mine.read() is None
    assert other.replace(b"third", second).result() is None
    assert mine.read() is None
