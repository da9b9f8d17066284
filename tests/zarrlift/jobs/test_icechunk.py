"""Icechunk repositories: a job works on a branch of its own, and readers see whole arrays only.

What a kill leaves is tested in `faults`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr
from tests.support.documents import v3_array
from tests.support.fixtures_index import archive
from tests.support.job_archives import other_archive, tree, write_archive
from tests.support.store_servers import KEY, SECRET

import zarrlift
from zarrlift import ArrayRecipe, Recipe
from zarrlift.cli import main
from zarrlift.errors import StorageError, UsageError
from zarrlift.storage.icechunk.place import IcechunkPlace, icechunk_errors
from zarrlift.storage.icechunk.storage import IcechunkStorage

icechunk.set_logs_filter("error")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "source.zarr")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"icechunk://{tmp_path}/repo"


def repository(url: str) -> icechunk.Repository:
    return icechunk.Repository.open(icechunk.local_filesystem_storage(url.removeprefix("icechunk://")))


def arrays(store: object, **options: object) -> dict[str, np.ndarray]:
    group = zarr.open_group(store, mode="r", **options)
    return {name: item[...] for name, item in group.members(max_depth=None) if isinstance(item, zarr.Array)}


def assert_equal(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_array_equal(values, other[name])


SOURCES = {
    "v1": lambda path: other_archive("zarr_v1", path),
    "v2": write_archive,
    "N5": lambda path: shutil.copytree(archive("n5/java-3.5.1/tree").path, path),
    "draft": lambda path: other_archive("zarr_v3_draft", path),
}
RECIPES = {
    "copy": Recipe(),
    "shards": Recipe(base=ArrayRecipe(shards="2x")),
    "other codecs": Recipe(base=ArrayRecipe(codecs="zstd:1")),
}


@pytest.mark.slow(one_in=13)
@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_repository_has_the_values_of_a_copy(kind, recipe, url, tmp_path):
    source = SOURCES[kind](tmp_path / "of-kind")
    copied = zarrlift.migrate(source, tmp_path / "copy.zarr", recipe=recipe)
    outcome = zarrlift.migrate(source, url, recipe=recipe, verify="full")
    assert (outcome.ok, outcome.arrays_done) == (copied.ok, copied.arrays_done)
    if not copied.ok:
        return
    assert_equal(arrays(repository(url).readonly_session("main").store), arrays(tmp_path / "copy.zarr"))
    assert zarrlift.verify(source, url, full=True, recipe=recipe).ok


def test_arrays_that_are_passed_through_keep_their_bytes_on_the_way_in_and_out(url, tmp_path):
    source = tmp_path / "source.zarr"
    document = v3_array([4, 6], [2, 3], "uint8", codecs=[{"name": "bytes"}, {"name": "unheard"}])
    for name, keys in (("a", ("c/0/0", "c/1/1")), ("g/b", ("c/0/1",))):
        for key in keys:
            (source / name / key).parent.mkdir(parents=True, exist_ok=True)
            (source / name / key).write_bytes(f"{name} {key}".encode())
        (source / name / "zarr.json").write_text(json.dumps(document))
    for name in ("", "g"):
        (source / name / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    zarrlift.migrate(source, url).raise_for_problems()
    assert zarrlift.verify(source, url, full=True).ok
    zarrlift.migrate(url, tmp_path / "back.zarr").raise_for_problems()
    for name, content in tree(source).items():
        if name not in ("zarr.json", "g/zarr.json"):
            kept = (tmp_path / "back.zarr" / name).read_bytes()
            assert json.loads(kept) == document if name.endswith("zarr.json") else kept == content
    assert zarrlift.verify(url, tmp_path / "back.zarr", full=True).ok


def test_a_repository_is_a_source(source, url, tmp_path):
    assert zarrlift.migrate(source, url).ok
    assert zarrlift.inspect(url).format == "zarr3"
    assert zarrlift.migrate(url, tmp_path / "back.zarr").ok
    zarrlift.migrate(source, tmp_path / "copy.zarr")
    assert_equal(arrays(tmp_path / "back.zarr"), arrays(tmp_path / "copy.zarr"))
    assert zarrlift.inspect(repository(url)).format == "zarr3"
    session = repository(url).readonly_session("main")
    assert len(zarrlift.inspect(session).nodes) == len(zarrlift.inspect(session.store).nodes)


def test_main_is_as_before_until_everything_is_there(source, url, monkeypatch):
    """An array fails: the others stay on the job's branch until it is repaired."""
    chunk = next(path for path in sorted(source.rglob("*")) if path.name[0].isdigit())
    good = chunk.read_bytes()
    chunk.write_bytes(b"\0")
    outcome = zarrlift.migrate(source, url)
    assert outcome.state == "incomplete"
    there = repository(url)
    (work,) = there.list_branches() - {"main"}
    assert work.startswith("zarrlift-")
    assert [info.parent_id for info in there.ancestry(branch="main")] == [None]
    assert arrays(there.readonly_session(work).store)
    chunk.write_bytes(good)
    assert zarrlift.resume(url).ok
    assert repository(url).list_branches() == {"main"}
    assert zarrlift.verify(source, url, full=True).ok
    info = next(iter(repository(url).ancestry(branch="main")))
    assert info.metadata["zarrlift_job"] == work.removeprefix("zarrlift-")


def test_finish_leaves_out_what_failed(source, url):
    chunk = next(path for path in sorted(source.rglob("*")) if path.name[0].isdigit())
    chunk.write_bytes(b"\0")
    outcome = zarrlift.migrate(source, url)
    failed = {problem.node for problem in outcome.problems}
    assert zarrlift.finish(url).state == "finished"
    there = repository(url)
    assert there.list_branches() == {"main"}
    seen = arrays(there.readonly_session("main").store)
    assert seen
    assert not failed & seen.keys()
    assert zarrlift.finish(url).state == "nothing to do"
    assert zarrlift.undo(url).state == "undone"
    assert [info.parent_id for info in repository(url).ancestry(branch="main")] == [None]


def test_a_branch_that_others_moved_is_not_overwritten(source, url, monkeypatch):
    publish = IcechunkStorage.publish

    def too_late(self, known):
        session = repository(url).writable_session("main")
        zarr.create_group(session.store, attributes={"by": "another"})
        session.commit("another")
        publish(self, known)

    monkeypatch.setattr(IcechunkStorage, "publish", too_late)
    outcome = zarrlift.migrate(source, url)
    assert outcome.state == "incomplete"
    (problem,) = outcome.problems
    assert problem.message == "the branch main was changed by others while the job ran"
    assert "Everything that was migrated is on the branch zarrlift-" in problem.advice
    assert zarr.open_group(repository(url).readonly_session("main").store, mode="r").attrs["by"] == "another"


def test_undo_leaves_what_others_built_on(source, url):
    assert zarrlift.migrate(source, url).ok
    session = repository(url).writable_session("main")
    zarr.create_group(session.store, path="more")
    session.commit("more")
    outcome = zarrlift.undo(url)
    assert [problem.message for problem in outcome.problems] == [
        "the branch was changed after the job, so it stays as it is"
    ]
    assert "more" in zarr.open_group(repository(url).readonly_session("main").store, mode="r")


def test_a_repository_object_is_a_destination(source, tmp_path):
    there = icechunk.Repository.create(icechunk.in_memory_storage())
    assert zarrlift.migrate(source, there, job=tmp_path / "job.db").ok
    zarrlift.migrate(source, tmp_path / "copy.zarr")
    assert_equal(arrays(there.readonly_session("main").store), arrays(tmp_path / "copy.zarr"))
    with pytest.raises(UsageError, match="a job writes to a branch of its own"):
        zarrlift.migrate(source, there.writable_session("main").store, job=tmp_path / "other.db")


REFUSED = {
    "keys": ({"key_encoding": "v2"}, "Icechunk has one encoding of chunk keys"),
    "separator": ({"separator": "."}, "Icechunk has one encoding of chunk keys"),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_what_icechunk_cannot_hold_is_refused(source, url, change, message, tmp_path):
    with pytest.raises(UsageError, match=message):
        zarrlift.migrate(source, url, recipe=Recipe(base=ArrayRecipe(**change)))
    assert not (tmp_path / "repo").exists()


def test_a_plan_makes_no_repository(source, url, tmp_path, capsys):
    assert main(["migrate", "--dry-run", str(source), url]) == 0
    assert not (tmp_path / "repo").exists()


def test_processes_do_not_commit_to_a_local_repository(source, url):
    with pytest.raises(UsageError, match="several processes cannot commit"):
        zarrlift.migrate(source, url, executor="processes", workers=2)


@pytest.mark.parametrize(
    "server", [pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in ("moto", "versitygw")]
)
@pytest.mark.parametrize("executor", ["threads", "processes", "dask"])
def test_a_repository_on_s3(server, executor, source, tmp_path, monkeypatch):
    from tests.support.bucket import serving
    from tests.support.store_servers import server as other

    with other(server) as installed, serving(installed) as bucket:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.endpoint)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        zarrlift.migrate(source, tmp_path / "copy.zarr")
        outcome = zarrlift.migrate(
            source,
            "icechunk+s3://bucket/of/repo",
            job=tmp_path / "job.db",
            executor=executor,
            workers=2,
        )
        assert outcome.ok, outcome.problems
        place = IcechunkPlace.parse("icechunk+s3://bucket/of/repo")
        store = place.open_repository().readonly_session("main").store
        assert_equal(arrays(store), arrays(tmp_path / "copy.zarr"))
        assert not [key for key in bucket.server.objects() if "claim" in key]
    assert SECRET.encode() not in (tmp_path / "job.db").read_bytes()


BAD = {
    "icechunk+ftp://a/b": "not the URL of an Icechunk repository",
    "icechunk+gs://bucket/repo": "not the URL of an Icechunk repository",
    "icechunk+file:///repo": "not the URL of an Icechunk repository",
    "icechunk+s3://bucket": "not the URL of an Icechunk repository",
    "icechunk+s3://key:secret@bucket/repo": "not the URL of an Icechunk repository; found icechunk.s3://bucket",
    "icechunk://": "not the URL of an Icechunk repository",
    "icechunk:///repo?branch=a": "give a session of it",
    "icechunk+s3://bucket/repo?tag=a": "give a session of it",
    "icechunk:///no/such/repo": "there is no Icechunk repository",
}


@pytest.mark.parametrize(("bad", "message"), BAD.items(), ids=BAD)
def test_a_bad_url_says_what_is_wrong(bad, message):
    with pytest.raises(UsageError, match=message):
        zarrlift.inspect(bad)


@pytest.mark.parametrize("given", ["icechunk+s3://bucket/repo", "icechunk:///repo"])
def test_storage_options_are_refused_without_repeating_them(given, source):
    options = {"key": "AKIA", "secret": "hunter22"}
    for call in (
        lambda: zarrlift.inspect(given, storage_options=options),
        lambda: zarrlift.migrate(source, given, dest_storage_options=options),
    ):
        with pytest.raises(UsageError, match=r"credentials of the environment.*give the Repository") as told:
            call()
        assert "hunter22" not in str(told.value)


HALF_MADE = ("refs/branch.main/ref.json", "repo")
"""What makes a repository of its other files, in Icechunk 1 and 2."""


def test_a_creation_that_was_killed_is_repeated(source, url, tmp_path):
    icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "repo")))
    for name in HALF_MADE:
        (tmp_path / "repo" / name).unlink(missing_ok=True)
    assert zarrlift.migrate(source, url).ok
    assert zarrlift.verify(source, url).ok


def test_a_directory_with_something_else_is_left_alone(source, url, tmp_path):
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/mine").write_text("x")
    with pytest.raises(UsageError, match="is not empty"):
        zarrlift.migrate(source, url)
    assert [path.name for path in (tmp_path / "repo").iterdir()] == ["mine"]


def test_without_the_package_the_extra_is_named(monkeypatch, url):
    monkeypatch.setitem(__import__("sys").modules, "icechunk", None)
    with pytest.raises(UsageError, match="needs a package that is not installed; expected icechunk"):
        zarrlift.inspect(url)


class PanicException(BaseException):
    """What Icechunk 1 raises where its directory cannot be made or read."""


def test_a_panic_of_icechunk_is_an_error_of_the_repository():
    with (
        pytest.raises(StorageError, match=r"cannot be opened.*No space left"),
        icechunk_errors("icechunk:///r"),
    ):
        raise PanicException("failed to create object store: No space left on device")
    with pytest.raises(KeyboardInterrupt), icechunk_errors("icechunk:///r"):
        raise KeyboardInterrupt


# ----- updates and parts, which a repository does not take


def change(source):
    zarr.open_array(source, path="g/relink", mode="r+", zarr_format=2)[:9] = 7


def state_of(url):
    """Branches and the snapshot of each."""
    there = repository(url)
    return {name: there.lookup_branch(name) for name in there.list_branches()}


def test_an_update_of_a_batch_is_refused_for_that_archive(source, url, tmp_path):
    batch = zarrlift.batch(source, to=url, list_file=tmp_path / "batch.zarrlift.jsonl")
    assert batch.outcome.ok
    change(source)
    before = state_of(url)
    (row,) = batch.update().rows
    assert "cannot be updated" in str(row.problems[0])
    assert row.state == "done"
    assert state_of(url) == before


# Virtual chunks are in other places: by URL they are refused; a Repository may authorize them itself.


@pytest.fixture
def virtual(url: str, tmp_path: Path) -> str:
    """A repository with an array whose only chunk is a part of a file."""
    (tmp_path / "data.bin").write_bytes(b"head" + np.arange(4, dtype="<u4").tobytes())
    prefix = f"{tmp_path.as_uri()}/"
    config = icechunk.RepositoryConfig.default()
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(prefix, icechunk.local_filesystem_store(str(tmp_path)))
    )
    storage = icechunk.local_filesystem_storage(url.removeprefix("icechunk://"))
    session = icechunk.Repository.create(storage, config=config).writable_session("main")
    zarr.create_array(session.store, name="a", shape=(4,), chunks=(4,), dtype="<u4", compressors=None)
    session.store.set_virtual_ref("a/c/0", f"{prefix}data.bin", offset=4, length=16)
    session.commit("refer")
    return prefix


def test_virtual_chunks_are_refused_by_name(virtual, url, tmp_path):
    for call in (
        zarrlift.inspect,
        zarrlift.open,
        lambda place: zarrlift.migrate(place, tmp_path / "new.zarr"),
    ):
        with pytest.raises(UsageError, match=r"virtual chunks.*found 1 in .*data\.bin.*give the Repository"):
            call(url)
    assert not (tmp_path / "new.zarr").exists()


def test_a_repository_that_authorizes_its_virtual_chunks_is_a_source(virtual, url, tmp_path):
    access = getattr(icechunk.credentials, "LocalFileSystemAccess", None)  # 1.x has None
    opened = icechunk.Repository.open(
        icechunk.local_filesystem_storage(url.removeprefix("icechunk://")),
        authorize_virtual_chunk_access=icechunk.containers_credentials({virtual: access}),
    )
    assert zarrlift.migrate(opened, tmp_path / "new.zarr").ok
    assert zarr.open_array(tmp_path / "new.zarr/a", mode="r")[...].tolist() == [0, 1, 2, 3]


def test_containers_without_virtual_chunks_are_no_obstacle(virtual, url, tmp_path):
    session = repository(url).writable_session("main")
    zarr.create_array(session.store, name="a", data=np.arange(4), overwrite=True)
    session.commit("copy")
    assert zarrlift.migrate(url, tmp_path / "new.zarr").ok
