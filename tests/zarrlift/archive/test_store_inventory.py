"""A store's own inventory gives the same plan as a listing."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.support.bucket import Bucket, serving
from tests.support.job_archives import tree, values, write_archive

import zarrlift
from zarrstack.core.errors import UsageError

FIELDS = ["Bucket", "Key", "Size", "LastModifiedDate", "ETag", "IsLatest", "IsDeleteMarker"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_archive(tmp_path_factory.mktemp("archive") / "source.zarr")


def etag(data: bytes) -> str:
    """That of S3; the server's own are shorter."""
    return f'"{hashlib.md5(data).hexdigest()}"'


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with serving() as made:
        monkeypatch.setitem(type(made.store).bucket.__globals__, "etag", etag)
        yield made


def rows(content: dict[str, bytes]) -> list[list[str]]:
    """One row for each object, as S3 writes it: names are quoted, and in no order."""
    found = {"other.zarr/.zarray": b"{}", **{f"in/a b/{key}": data for key, data in content.items()}}
    return [
        ["bucket", quote(key), str(len(data)), "2026-01-01T00:00:00.000Z", etag(data).strip('"')]
        for key, data in reversed(found.items())
    ]


def text(table: Sequence[Sequence[str]]) -> bytes:
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(table)
    return file.getvalue().encode()


def as_plain(folder: Path, table: list[list[str]]) -> Path:
    (folder / "plain.csv").write_bytes(text(table))
    return folder / "plain.csv"


def with_header(folder: Path, table: list[list[str]]) -> Path:
    return as_plain(folder, [FIELDS[:5], *table])


def by_manifest(folder: Path, table: list[list[str]]) -> Path:
    """Two packed files, of all versions of the objects."""
    (folder / "data").mkdir()
    (folder / "2026").mkdir()
    old = [[*row[:4], "0" * 32, "false", "false"] for row in table]
    parts = {"one.csv.gz": [[*row, "true", "false"] for row in table[:9]] + old}
    parts["two.csv.gz"] = [[*row, "true", "false"] for row in table[9:]]
    for name, part in parts.items():
        (folder / "data" / name).write_bytes(gzip.compress(text(part)))
    manifest: dict[str, Any] = {"fileFormat": "CSV", "fileSchema": ", ".join(FIELDS)}
    manifest["files"] = [{"key": f"inventories/data/{name}"} for name in parts]
    (folder / "2026/manifest.json").write_text(json.dumps(manifest))
    return folder / "2026/manifest.json"


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("write", [as_plain, with_header, by_manifest], ids=lambda way: way.__name__)
def test_the_plan_is_that_of_a_listing(write: Any, bucket: Bucket, source: Path, tmp_path: Path) -> None:
    url = bucket.put("in/a b", tree(source))
    inventory = write(tmp_path, rows(tree(source)))
    options = {"storage_options": bucket.options}
    expected = zarrlift.plan(url, **options).to_json()
    bucket.store.requests.clear()
    assert zarrlift.plan(url, inventory=inventory, **options).to_json() == expected
    listed = bucket.store.requests["list"]
    zarrlift.plan(url, **options)
    assert bucket.store.requests["list"] > 2 * listed
    assert zarrlift.migrate(url, tmp_path / "out.zarr", inventory=inventory, **options).ok
    assert values(tmp_path / "out.zarr", 3) == values(source, 2)


def test_an_object_that_is_not_in_the_inventory_is_named(
    bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    url = bucket.put("in/a b", tree(source))
    table = [row for row in rows(tree(source)) if not row[1].endswith("h/rewrite/1.1")]
    inventory = as_plain(tmp_path, table)
    outcome = zarrlift.migrate(
        url, tmp_path / "out.zarr", inventory=inventory, storage_options=bucket.options
    )
    (problem,) = outcome.problems
    assert (problem.kind, problem.node) == ("source-changed", "h/rewrite")
    assert problem.found == "1 added (h/rewrite/1.1)"
    assert zarrlift.resume(tmp_path / "out.zarr", storage_options=bucket.options).ok


WRONG = {
    "size": (["bucket", "in/a%20b/x", "many", "", "0" * 32], "line 2"),
    "columns": (["bucket", "in/a%20b/x", "1"], "line 2"),
    "bucket": (["other", "in/a%20b/x", "1", "", "0" * 32], "line 2"),
    "etag": (["bucket", "in/a%20b/x", "1", "", ""], "line 2"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_row_is_named(wrong: str, bucket: Bucket, source: Path, tmp_path: Path) -> None:
    url = bucket.put("in/a b", tree(source))
    row, place = WRONG[wrong]
    inventory = as_plain(tmp_path, [rows(tree(source))[0], row])
    with pytest.raises(UsageError, match=place):
        zarrlift.plan(url, inventory=inventory, storage_options=bucket.options)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (["bucket", "in/a%20b/x", "12", "34", "0" * 32], "columns .* cannot be recognized"),
        (["bucket", "elsewhere", "12", "0" * 32], "no object of the source"),
    ],
)
def test_an_inventory_that_is_not_understood_is_refused(
    row: list[str], message: str, bucket: Bucket, source: Path, tmp_path: Path
) -> None:
    url = bucket.put("in/a b", tree(source))
    with pytest.raises(UsageError, match=message):
        zarrlift.plan(url, inventory=as_plain(tmp_path, [row]), storage_options=bucket.options)
    with pytest.raises(UsageError, match="for a source in S3"):
        zarrlift.plan(source, inventory=as_plain(tmp_path, [row]))
