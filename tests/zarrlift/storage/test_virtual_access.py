"""Virtual chunks of Icechunk are read from permitted places only, through servers that the user names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import icechunk
import pytest
import zarr
from tests.support.bucket import Bucket

from zarrlift.storage.icechunk.place import IcechunkPlace
from zarrlift.storage.icechunk.virtual_access import authorized, check_virtual_chunks
from zarrlift.storage.reference_options import AskedReferences
from zarrstack.core.errors import UsageError

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


def values(place: IcechunkPlace, asked: AskedReferences) -> list[int]:
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
        assert values(local, AskedReferences(allowed=(str(permitted),))) == VALUES


@pytest.mark.parametrize("permitted", ["", "other", "data/below", "dat"])
def test_other_files_are_refused(local: IcechunkPlace, tmp_path: Path, permitted: str) -> None:
    allowed = (str(tmp_path / permitted),) if permitted else ()
    with pytest.raises(UsageError, match=f"--allow-references {tmp_path}/data/"):
        values(local, AskedReferences(allowed=allowed))


def test_a_missing_file_is_an_error_and_no_missing_chunk(local: IcechunkPlace, tmp_path: Path) -> None:
    (tmp_path / "data" / "x.bin").unlink()
    with pytest.raises(icechunk.IcechunkError, match="virtual reference"):
        values(local, AskedReferences(allowed=(str(tmp_path),)))


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
        values(place, AskedReferences(allowed=allowed, options={"anon": True}))
    assert values(place, AskedReferences(allowed=allowed, options=our_bucket.options)) == VALUES
    with pytest.raises(UsageError, match="--allow-references s3://bucket/in/"):
        values(place, AskedReferences(options=our_bucket.options))


def test_a_repository_without_containers_needs_nothing(tmp_path: Path) -> None:
    made = icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "plain")))
    place = IcechunkPlace.parse(f"icechunk://{tmp_path}/plain")
    assert authorized(made, place, AskedReferences()) is made
