"""Where references may lead, and that what they lead to is the object that was planned."""

from __future__ import annotations

import functools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr
from tests.support.bucket import Bucket
from tests.support.changing_archives import once
from tests.support.store_servers import SECRET
from tests.support.unpacking import unpacked
from tests.support.web_servers import Files, serving
from tests.zarrlift.storage.conftest import files

import zarrlift
from zarrlift.storage.icechunk.place import IcechunkPlace
from zarrlift.storage.icechunk.virtual_access import authorized, check_virtual_chunks
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.reference_options import AskedReferences
from zarrlift.storage.references.targets import Target, Targets
from zarrlift.transfer.worker import Worker
from zarrstack.core.errors import StorageError, UnsupportedError, UsageError

HOME = Target("s3://bucket", "deep/refs.json")


def data() -> Path:
    return unpacked("references/virtualizarr-2.5.1/references")


def targets(*allowed: str, home: Target = HOME) -> Targets:
    return Targets(home, {}, AskedReferences(allowed=allowed), lambda *_: pytest.fail("opened"))


def values(name: str) -> np.ndarray:
    with np.load(data() / "expected.npz") as found:
        return np.concatenate([found[f"{file}/{name}"] for file in ("first", "second")])


def equal(place: Any, **options: Any) -> None:
    """Compare what was written with what netCDF4 read from the original files."""
    group = zarr.open_group(open_storage(place, **options).zarr_store(), mode="r")
    for name in ("packed", "plain", "big", "time"):
        np.testing.assert_array_equal(group[name][:], values(name))


# What may be read


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("s3://bucket/other/x.nc", ()),
        ("x.nc", ()),
        ("s3a://bucket/x.nc", ()),
        ("s3://elsewhere/data/x.nc", ("s3://elsewhere/",)),
        ("s3://elsewhere/data/x.nc", ("s3://elsewhere/data",)),
        ("https://Host.org:81/a/x.nc?sig=1", ("https://host.org:81",)),
        ("/data/x.nc", ("/data",)),
        ("file:///data/x.nc", ("/data/",)),
        ("/data/x.nc", ("file:///data/x.nc",)),
    ],
)
def test_references_lead_to_their_own_bucket_and_to_permitted_places(url, allowed):
    assert targets(*allowed).resolve(url)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("/etc/passwd", ()),
        ("file:///etc/passwd", ("s3://",) * 0),
        ("file://localhost/etc/passwd", ()),
        ("FILE:///etc/passwd", ()),
        ("local:///etc/passwd", ()),
        ("/database/x.nc", ("/data",)),
        ("/data/../etc/passwd", ("/data",)),
        ("s3://bucket2/x.nc", ()),
        ("s3://elsewhere/database/x.nc", ("s3://elsewhere/data",)),
        ("gs://bucket/x.nc", ()),
        ("https://bucket/x.nc", ()),
        ("http://host/x.nc", ("https://host/",)),
        ("https://host:8443/x.nc", ("https://host/",)),
        ("https://host@evil.org/x.nc", ("https://host/",)),
        ("https://host\\@evil.org/x.nc", ("https://host/",)),
        ("http://169.254.169.254/latest/meta-data/", ()),
    ],
)
def test_other_places_are_refused_with_the_option_that_permits_them(url, allowed):
    with pytest.raises(UsageError, match="--allow-references"):
        targets(*allowed).resolve(url)


@pytest.mark.parametrize(
    "url",
    [
        "../../x.nc", "zip::s3://bucket/x.zip", "simplecache::file:///etc/passwd", "s3://bucket/a/../../x", "s3://",
        "https://host/%2e%2e/x", "s3://bucket", "x\0y",
    ],
)  # fmt: skip
def test_what_is_no_plain_place_is_refused_whatever_is_permitted(url):
    with pytest.raises(UnsupportedError):
        targets("/", "s3://bucket/", "https://host/").resolve(url)


def test_a_link_is_resolved_before_its_path_is_compared(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "private").write_bytes(b"ab")
    os.symlink(tmp_path / "private", tmp_path / "data" / "x.nc")
    with pytest.raises(UsageError, match="--allow-references"):
        targets(str(tmp_path / "data")).resolve(str(tmp_path / "data" / "x.nc"))
    os.symlink(tmp_path / "data", tmp_path / "alias")
    (tmp_path / "data" / "y.nc").write_bytes(b"ab")
    assert targets(str(tmp_path / "alias")).resolve(str(tmp_path / "data" / "y.nc"))


def test_all_refused_places_are_named_at_once_without_secrets(tmp_path):
    refs = {
        ".zgroup": {"zarr_format": 2},
        "a/.zarray": json.loads((data() / "old.zarr/dots/.zarray").read_bytes()),
        "a/0.0": ["/data/here/x.nc"],
        "a/0.1": ["s3://elsewhere/y.nc"],
        "a/0.2": ["https://user:password@host/z.nc?signature=verysecret"],
    }
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    with pytest.raises(UsageError) as error:
        zarrlift.plan(tmp_path / "refs.json")
    text = str(error.value)
    assert all(place in text for place in ("/data/here/", "s3://elsewhere/", "https://host/"))
    assert "verysecret" not in text
    assert "password" not in text


def test_credentials_go_only_where_they_belong():
    """Those of the references to their own bucket, those of `reference_options` to other places."""
    opened: dict[str, Any] = {}

    def open_place(place: str, options: Any) -> Any:
        opened[place] = dict(options)
        raise StorageError("not opened")

    asked = AskedReferences(allowed=("s3://elsewhere/", "https://host/"), options={"token": "theirs"})
    made = Targets(HOME, {"key": "ours"}, asked, open_place)
    from zarrlift.storage.remote.event_loop import run

    for url in ("x.nc", "s3://elsewhere/x.nc", "https://host/x.nc"):
        with pytest.raises(StorageError):
            run(made.part(made.resolve(url), 0, 1, None))
    assert opened == {
        "s3://bucket": {"key": "ours"},
        "s3://elsewhere": {"token": "theirs"},
        "https://host": {"token": "theirs"},
    }


# Other places than this machine


@pytest.mark.slow
@pytest.mark.parametrize("name", ["combined.json", "combined.parquet"])
def test_references_in_a_bucket_lead_to_objects_in_it(bucket: Bucket, name, tmp_path):
    ends = f"{bucket.put('in', files(data()))}/{name}", bucket.url("out")
    outcome = zarrlift.migrate(*ends, job=tmp_path / "job.db", executor="processes", **bucket.ends)
    assert outcome.ok, outcome.problems
    equal(ends[1], storage_options=bucket.options)
    assert zarrlift.verify(*ends, full=True, **bucket.ends).ok


def test_references_on_disk_lead_to_a_bucket_with_options_of_its_own(our_bucket: Bucket, tmp_path):
    our_bucket.put("in", files(data()))
    text = (data() / "virtual.json").read_text().replace("memory:\\/\\/fixture", "s3://bucket/in")
    (tmp_path / "refs.json").write_text(text)
    options = {"allow_references": ["s3://bucket/in/"], "reference_options": our_bucket.options}
    outcome = zarrlift.migrate(tmp_path / "refs.json", tmp_path / "out.zarr", storage_options=options)
    assert outcome.ok, outcome.problems
    equal(tmp_path / "out.zarr")
    stored = (tmp_path / "out.zarr.zarrlift.db").read_bytes()
    assert SECRET in str(our_bucket.options)
    assert SECRET.encode() not in stored


@pytest.fixture
def web(tmp_path) -> Iterator[str]:
    root = shutil.copytree(data(), tmp_path / "served")
    with serving(functools.partial(Files, directory=str(root))) as url:
        yield url


@pytest.mark.parametrize("name", ["combined.json", "combined.parquet"])
def test_references_on_a_web_server_lead_to_files_beside_them(web, name, tmp_path):
    outcome = zarrlift.migrate(f"{web}/{name}", tmp_path / "out.zarr")
    assert outcome.ok, outcome.problems
    equal(tmp_path / "out.zarr")


# What changes


def rewritten(path: Path) -> None:
    """Other values at the same places, in a file of the same size."""
    content = bytearray(path.read_bytes())
    content[2000:] = bytes(len(content) - 2000)
    path.write_bytes(bytes(content))
    os.utime(path, (1, 1))


@pytest.mark.parametrize("name", ["combined.json", "combined.parquet"])
@pytest.mark.parametrize("what", ["target", "references"])
def test_a_change_between_plan_and_read_fails_the_array(tmp_path, monkeypatch, name, what):
    root = shutil.copytree(data(), tmp_path / "data")
    document = root / name if name.endswith("json") else root / name / ".zmetadata"
    changes = {
        "target": lambda: rewritten(root / "second.nc"),
        "references": lambda: os.utime(document, (1, 1)),
    }
    run, change = Worker.run, once(changes[what])

    def late(self: Worker, *arguments: Any) -> Any:
        change()
        return run(self, *arguments)

    monkeypatch.setattr(Worker, "run", late)
    options = {"storage_options": {"allow_references": [str(root)]}}
    outcome = zarrlift.migrate(root / name, tmp_path / "out.zarr", **options)
    changed = {problem.node for problem in outcome.problems if problem.kind == "source-changed"}
    assert {"packed", "plain"} <= changed
    assert not (tmp_path / "out.zarr" / "packed" / "zarr.json").exists()
    monkeypatch.undo()
    shutil.copy2(data() / "second.nc", root / "second.nc")
    assert zarrlift.resume(tmp_path / "out.zarr", **options).ok
    equal(tmp_path / "out.zarr")


def test_a_target_that_changes_in_a_bucket_fails_the_array(bucket: Bucket, tmp_path, monkeypatch):
    source = bucket.put("in", files(data()))
    run, change = Worker.run, once(lambda: bucket.put("in", {"second.nc": bytes(21684)}))

    def late(self: Worker, *arguments: Any) -> Any:
        change()
        return run(self, *arguments)

    monkeypatch.setattr(Worker, "run", late)
    outcome = zarrlift.migrate(
        f"{source}/combined.json", tmp_path / "out.zarr", storage_options=bucket.options
    )
    assert {"packed", "plain"} <= {p.node for p in outcome.problems if p.kind == "source-changed"}


def test_parts_of_references_never_show_what_is_around_them(tmp_path):
    (tmp_path / "x.bin").write_bytes(bytes(range(100)))
    refs = {"a": ["x.bin", 10, 20], "b": ["x.bin"], "c": "inline"}
    (tmp_path / "refs.json").write_text(json.dumps({"version": 1, "refs": refs}))
    opened = open_storage(tmp_path / "refs.json", storage_options={"allow_references": [str(tmp_path)]})
    whole = {key: opened.get(key) for key in refs}
    assert whole == {"a": bytes(range(10, 30)), "b": bytes(range(100)), "c": b"inline"}
    for key, content in whole.items():
        assert opened.size(key) == len(content)
        for start, length in ((0, 5), (3, 4), (15, 100), (200, 5)):
            assert opened.get_part(key, start, length) == content[start : start + length], (key, start)
        assert opened.get_part(key, -4, 4) == content[-4:]
        assert opened.get_part(key, -500, 500) == content


# Virtual chunks of Icechunk are read from permitted places only, through servers that the user names.

VALUES = [10, 11, 20, 21, 0, 0]


def written(path: Path, container: str, store: Any, location: str) -> IcechunkPlace:
    """A repository with one array, two chunks of which are in the object at `location`."""
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(container, store))
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(path)), config=config)
    session = repository.writable_session("main")
    zarr.create_group(session.store).create_array(
        "a", shape=(6,), chunks=(2,), dtype="u1", compressors=None, fill_value=0
    )
    for number, offset in enumerate((10, 20)):
        session.store.set_virtual_ref(
            f"a/c/{number}", location, offset=offset, length=2, validate_container=True
        )
    session.commit("references")
    return IcechunkPlace.parse(f"icechunk://{path}")


def read_values(place: IcechunkPlace, asked: AskedReferences) -> list[int]:
    session = authorized(place.open_repository(), place, asked).readonly_session("main")
    check_virtual_chunks(session, place, asked)
    array: Any = zarr.open_group(session.store, mode="r")["a"]
    found: list[int] = array[:].tolist()
    return found


@pytest.fixture
def local(tmp_path: Path) -> IcechunkPlace:
    data = tmp_path / "data"
    data.mkdir()
    (data / "x.bin").write_bytes(bytes(range(100)))
    store = icechunk.local_filesystem_store(f"{data}/")
    return written(tmp_path / "repository", f"file://{data}/", store, f"file://{data}/x.bin")


def test_files_are_read_below_permitted_directories(local: IcechunkPlace, tmp_path: Path) -> None:
    for permitted in (tmp_path, tmp_path / "data", tmp_path / "data" / "x.bin"):
        assert read_values(local, AskedReferences(allowed=(str(permitted),))) == VALUES


@pytest.mark.parametrize("permitted", ["", "other", "data/below", "dat"])
def test_other_files_are_refused(local: IcechunkPlace, tmp_path: Path, permitted: str) -> None:
    allowed = (str(tmp_path / permitted),) if permitted else ()
    with pytest.raises(UsageError, match=f"--allow-references {tmp_path}/data/"):
        read_values(local, AskedReferences(allowed=allowed))


def test_a_missing_file_is_an_error_and_no_missing_chunk(local: IcechunkPlace, tmp_path: Path) -> None:
    (tmp_path / "data" / "x.bin").unlink()
    with pytest.raises(icechunk.IcechunkError, match="virtual reference"):
        read_values(local, AskedReferences(allowed=(str(tmp_path),)))


def test_a_bucket_is_reached_as_the_user_says_and_not_as_the_repository_does(
    our_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials would otherwise go to a server that a stranger named."""
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)  # which Icechunk cannot be given
    our_bucket.put("in", {"x.bin": bytes(range(100))})
    store = icechunk.s3_store(
        region="us-east-1", endpoint_url="http://127.0.0.1:9", allow_http=True, s3_compatible=True
    )
    place = written(tmp_path / "repository", "s3://bucket/in/", store, "s3://bucket/in/x.bin")
    allowed = ("s3://bucket/in/",)
    with pytest.raises(UsageError, match=r"server that the options do not name.*127\.0\.0\.1:9"):
        read_values(place, AskedReferences(allowed=allowed, options={"anon": True}))
    assert read_values(place, AskedReferences(allowed=allowed, options=our_bucket.options)) == VALUES
    with pytest.raises(UsageError, match="--allow-references s3://bucket/in/"):
        read_values(place, AskedReferences(options=our_bucket.options))


def test_a_repository_without_containers_needs_nothing(tmp_path: Path) -> None:
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "plain")))
    place = IcechunkPlace.parse(f"icechunk://{tmp_path}/plain")
    assert authorized(made, place, AskedReferences()) is made
