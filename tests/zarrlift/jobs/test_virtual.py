"""`--virtual`: references instead of copies, and what is refused or noticed."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import icechunk
import numpy as np
import pytest
import xarray as xr
import zarr
from tests.support import web_servers
from tests.support.bucket import serving
from tests.support.fixtures_index import archive
from tests.support.job_processes import stopping
from tests.support.readers import opened_icechunk, opened_icechunk_bucket, opened_kerchunk
from tests.support.store_servers import OF_S3, SECRET, server
from tests.support.unpacking import FIXTURES, unpacked
from tests.support.v2_trees import GROUP, array, tree

import zarrlift
from zarrlift.jobs.virtual.icechunk_output import IcechunkOutput
from zarrstack.core.errors import StorageError, UsageError

CHUNK = np.arange(6, dtype="<i4").tobytes()
DIAGONAL = [[0, 1, 2, 0, 0, 0], [3, 4, 5, 0, 0, 0], [0, 0, 0, 0, 1, 2], [0, 0, 0, 3, 4, 5]]
"""The chunks at (0, 0) and (1, 1), and the fill value elsewhere."""
SHARDS = unpacked("zarr_v3_draft/zarr-2.18/sharded.zarr")
SHARDED = json.loads((FIXTURES / "zarr_v3_draft/zarr-2.18/sharded.expected.json").read_text())
OLD = 1_500_000_000
"""A time of modification long ago."""


def small(root: Path, **chunks: bytes) -> Path:
    """An array of four chunks, of which those named `c00` to `c11` exist."""
    entries = {f"a/{name[1]}.{name[2]}": content for name, content in chunks.items()}
    tree(root, {".zgroup": GROUP, "a/.zarray": array(), **entries})
    for file in root.rglob("*"):
        os.utime(file, (OLD, OLD))
    return root


def icechunk_url(place: Path) -> str:
    return f"icechunk://{place}"


def test_only_references_are_written_and_missing_chunks_stay_missing(tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK)
    outcome = zarrlift.migrate(source, tmp_path / "refs.json", virtual=True)
    assert (outcome.state, outcome.chunks, outcome.bytes_in, outcome.filled) == ("done", 2, 48, 0)
    refs = json.loads((tmp_path / "refs.json").read_text())["refs"]
    assert refs["a/0.0"] == [f"file://{source}/a/0.0", 0, 24]
    assert {key for key in refs if "/0." in key or "/1." in key} == {"a/0.0", "a/1.1"}
    store = opened_kerchunk(str(tmp_path / "refs.json"), source)
    found = zarr.open_array(store, path="a", mode="r", zarr_format=3)
    assert found[:].tolist() == DIAGONAL


def test_blocks_of_n5_are_referred_to_behind_their_headers_and_cut_ones_are_stored(tmp_path: Path) -> None:
    source = archive("n5/java-3.5.1/edges").path
    outcome = zarrlift.migrate(source, tmp_path / "refs.json", virtual=True)
    refs = json.loads((tmp_path / "refs.json").read_text())["refs"]
    stored = [key for key, value in refs.items() if isinstance(value, str) and value.startswith("base64:")]
    assert outcome.filled == len(stored) > 0
    assert {value[1] for value in refs.values() if isinstance(value, list)} == {12, 16}  # 2 and 3 axes
    notes = [problem for problem in outcome.plan.all_problems() if problem.kind == "cut-blocks"]
    assert {problem.node for problem in notes} >= {"cut/all_gzip"}


@pytest.mark.parametrize("change", ["rewritten", "shorter", "gone"])
def test_a_changed_source_is_an_error_and_not_a_wrong_value(change: str, tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK)
    zarrlift.migrate(source, icechunk_url(tmp_path / "repo"), virtual=True)
    file = source / "a/0.0"
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes(CHUNK if change == "rewritten" else CHUNK[:8])
    found = zarr.open_array(opened_icechunk(icechunk_url(tmp_path / "repo"), source), path="a", mode="r")
    with pytest.raises(Exception, match=r"error fetching virtual reference|checksum .* has changed"):
        found[:2, :3]
    assert found[2:, 3:].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_verify_reads_the_references_and_the_source(tmp_path: Path) -> None:
    source, place = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK), icechunk_url(tmp_path / "repo")
    zarrlift.migrate(source, place, virtual=True)
    assert zarrlift.verify(source, place, full=True).ok
    (source / "a/0.0").write_bytes(CHUNK[::-1])
    (problem,) = zarrlift.verify(source, place, full=True).problems
    assert "has changed" in str(problem)


def test_a_file_that_was_just_written_is_referred_to_once_its_second_is_over(tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK)
    (source / "a/0.0").write_bytes(CHUNK)  # now
    zarrlift.migrate(source, icechunk_url(tmp_path / "repo"), virtual=True)
    (source / "a/0.0").write_bytes(CHUNK[::-1])
    found = zarr.open_array(opened_icechunk(icechunk_url(tmp_path / "repo"), source), path="a", mode="r")
    with pytest.raises(Exception, match=r"checksum .* has changed"):
        found[:]


def test_nothing_is_visible_before_everything_is_referred_to(tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK)
    with stopping(IcechunkOutput, "publish"), pytest.raises(KeyboardInterrupt):
        zarrlift.migrate(source, icechunk_url(tmp_path / "repo"), virtual=True)
    with pytest.raises(FileNotFoundError):
        zarr.open_group(opened_icechunk(icechunk_url(tmp_path / "repo"), source), mode="r")


KILLED = """
import os, signal, sys
from zarrlift.cli import main
from zarrlift.jobs.virtual import icechunk_output, kerchunk
for form in (icechunk_output.IcechunkOutput, kerchunk.Kerchunk):
    form.publish = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(["migrate", *sys.argv[1:], "--virtual"])
"""


@pytest.mark.parametrize("name", ["repo", "refs.json"])
@pytest.mark.slow(one_in=2)
def test_a_killed_run_is_repeated_by_the_same_command(name: str, tmp_path: Path) -> None:
    source, place = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK), str(tmp_path / name)
    if name == "repo":
        place = icechunk_url(tmp_path / name)
    done = subprocess.run([sys.executable, "-c", KILLED, str(source), place], check=False)
    assert done.returncode == -signal.SIGKILL
    outcome = zarrlift.migrate(source, place, virtual=True)
    assert outcome.ok
    opened = opened_icechunk if name == "repo" else opened_kerchunk
    found = zarr.open_array(opened(place, source), path="a", mode="r", zarr_format=3)
    assert found[:].tolist() == DIAGONAL
    with pytest.raises(UsageError, match="exists"):
        zarrlift.migrate(source, place, virtual=True)


def test_a_repository_without_commits_is_used_whoever_made_it(tmp_path: Path) -> None:
    source, place = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK), tmp_path / "repo"
    config = icechunk.RepositoryConfig.default()
    config.inline_chunk_threshold_bytes = 77
    config.set_virtual_chunk_container(
        icechunk.VirtualChunkContainer(f"file://{tmp_path}/", icechunk.local_filesystem_store(str(tmp_path)))
    )
    storage = icechunk.local_filesystem_storage(str(place))
    icechunk.Repository.create(storage, config=config)
    assert zarrlift.migrate(source, icechunk_url(place), virtual=True).ok
    found = zarr.open_array(opened_icechunk(icechunk_url(place), source), path="a", mode="r")
    assert found[:].tolist() == DIAGONAL
    assert icechunk.Repository.open(storage).config.inline_chunk_threshold_bytes == 77


@pytest.mark.parametrize("what", ["branch", "tag"])
def test_a_repository_that_others_use_is_not_used(what: str, tmp_path: Path) -> None:
    source, place = small(tmp_path / "old.zarr", c00=CHUNK), tmp_path / "repo"
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(place)))
    first = repository.lookup_branch("main")
    (repository.create_branch if what == "branch" else repository.create_tag)("other", first)
    with pytest.raises(UsageError, match="exists"):
        zarrlift.migrate(source, icechunk_url(place), virtual=True)


def test_a_commit_of_others_is_not_replaced(tmp_path: Path, monkeypatch) -> None:
    source, place = small(tmp_path / "old.zarr", c00=CHUNK), tmp_path / "repo"
    publish = IcechunkOutput.publish

    def late(output: IcechunkOutput, message: str) -> int:
        repository = icechunk.Repository.open(icechunk.local_filesystem_storage(str(place)))
        session = repository.writable_session("main")
        zarr.create_group(session.store, attributes={"by": "others"})
        session.commit("first")
        return publish(output, message)

    monkeypatch.setattr(IcechunkOutput, "publish", late)
    with pytest.raises(StorageError, match=r"cannot commit; found ConflictError"):
        zarrlift.migrate(source, icechunk_url(place), virtual=True)
    found = zarr.open_group(opened_icechunk(icechunk_url(place), source), mode="r")
    assert dict(found.attrs) == {"by": "others"}


@pytest.mark.parametrize("name", ["repo", "refs.json", "refs.parquet"])
def test_nothing_is_written_where_everything_is_refused(name: str, tmp_path: Path) -> None:
    source, place = tmp_path / "old.zarr", tmp_path / name
    tree(source, {".zarray": array(dtype="bfloat16")})
    outcome = zarrlift.migrate(source, icechunk_url(place) if name == "repo" else place, virtual=True)
    assert (outcome.state, outcome.arrays_done, outcome.arrays_total) == ("incomplete", 0, 1)
    assert outcome.how_to_open == ""
    assert not place.exists()


def test_a_damaged_chunk_keeps_its_array_out_and_no_other(tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK[:-1])
    shutil.copytree(source / "a", source / "b")
    (source / "b/1.1").unlink()
    for place in (str(tmp_path / "refs.json"), icechunk_url(tmp_path / "repo")):
        outcome = zarrlift.migrate(source, place, virtual=True)
        assert (outcome.state, outcome.arrays_done, outcome.arrays_total) == ("incomplete", 1, 2)
        (problem,) = outcome.problems
        assert (problem.kind, problem.node, problem.key) == ("chunk", "a", "a/1.1")
        opened = opened_icechunk if place.startswith("icechunk") else opened_kerchunk
        store = opened(place, source)
        assert zarr.open_array(store, path="b", mode="r", zarr_format=3)[:2, :3].tolist() == [
            [0, 1, 2],
            [3, 4, 5],
        ]
        with pytest.raises(FileNotFoundError):
            zarr.open_array(store, path="a", mode="r", zarr_format=3)


@pytest.mark.filterwarnings("ignore:Object at zarr.json is not recognized")
@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")  # which fsspec 2026.9 asks for
def test_what_kerchunk_wrote_for_is_opened_by_its_own_engine(tmp_path: Path) -> None:
    source = tmp_path / "old.zarr"
    data = xr.Dataset(
        {"t": (("y", "x"), np.arange(600.0).reshape(20, 30))}, coords={"x": np.arange(30), "y": np.arange(20)}
    )
    data.to_zarr(source, zarr_format=2, encoding={"t": {"chunks": (8, 7)}}, consolidated=True)
    for name in ("refs.json", "refs.parquet"):
        outcome = zarrlift.migrate(source, tmp_path / name, virtual=True)
        assert outcome.ok
        options = {"remote_protocol": "file"}
        found = xr.open_dataset(str(tmp_path / name), engine="kerchunk", storage_options=options)
        assert found.identical(xr.open_zarr(source, zarr_format=2))
    v3 = xr.open_zarr(opened_kerchunk(str(tmp_path / "refs.json"), source), zarr_format=3)
    assert v3.identical(xr.open_zarr(source, zarr_format=2))


@pytest.mark.filterwarnings("ignore:The 'fastparquet' engine is deprecated")
def test_parquet_holds_missing_chunks_and_cut_blocks(tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK)
    assert zarrlift.migrate(source, tmp_path / "refs.parquet", virtual=True).ok
    store = opened_kerchunk(str(tmp_path / "refs.parquet"), source)
    found = zarr.open_array(store, path="a", mode="r", zarr_format=2)
    assert found[:].tolist() == DIAGONAL
    cut = archive("n5/java-3.5.1/edges")
    assert zarrlift.migrate(cut.path, tmp_path / "edges.parquet", virtual=True).filled
    store = opened_kerchunk(str(tmp_path / "edges.parquet"), cut.path)
    for name, array_ in cut.arrays.items():
        if name != "too_large":
            found = zarr.open_array(store, path=name, mode="r", zarr_format=2)
            assert np.array_equal(found[:], array_.in_axes("reversed"))


def test_parquet_holds_no_array_at_its_root(tmp_path: Path) -> None:
    source = tree(tmp_path / "old.zarr", {".zarray": array(), "0.0": CHUNK}).root
    with pytest.raises(UsageError, match="no array at the root"):
        zarrlift.migrate(source, tmp_path / "refs.parquet", virtual=True)
    assert not (tmp_path / "refs.parquet").exists()
    assert zarrlift.migrate(source, tmp_path / "refs.json", virtual=True).ok


@pytest.mark.parametrize("name", ["sp ace", "per%20cent", "q?m", "h#sh", "uni é", "plus+x", "br[1]"])
def test_any_name_can_be_referred_to(name: str, tmp_path: Path) -> None:
    source = small(tmp_path / name, c00=CHUNK)
    (source / "a").rename(source / f"a {name}")
    for place in (str(tmp_path / "refs.json"), icechunk_url(tmp_path / "repo")):
        assert zarrlift.migrate(source, place, virtual=True).ok
        opened = opened_icechunk if place.startswith("icechunk") else opened_kerchunk
        found = zarr.open_array(opened(place, source), path=f"a {name}", mode="r", zarr_format=3)
        assert found[:2, :3].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_what_does_not_apply_to_references_is_refused_by_name(tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK)
    refs = tmp_path / "refs.json"
    cases = {
        "--overwrite": {"overwrite": True},
        "--digest": {"digest": True},
        "--job": {"job": tmp_path / "job"},
        "--workers": {"workers": 2},
        "--source-through": {"source_through": "retry"},
        "--codecs": {"recipe": zarrlift.Recipe(base=zarrlift.ArrayRecipe(codecs="zstd:3"))},
        "--shards": {"recipe": zarrlift.Recipe(base=zarrlift.ArrayRecipe(shards="2,2"))},
        "--set key-encoding": {"recipe": zarrlift.Recipe(base=zarrlift.ArrayRecipe(separator="/"))},
    }
    for words, options in cases.items():
        with pytest.raises(UsageError, match=words):
            zarrlift.migrate(source, refs, virtual=True, **options)
    with pytest.raises(UsageError, match="cannot hold references"):
        zarrlift.migrate(source, tmp_path / "new.zarr", virtual=True)
    with pytest.raises(UsageError, match="a URL for each object"):
        zarrlift.migrate(archive("zarr-2.18/stores/zip").path, refs, virtual=True)
    with pytest.raises(UsageError, match="first commit of a new repository"):
        zarrlift.migrate(source, f"{icechunk_url(tmp_path / 'repo')}?branch=dev", virtual=True)
    assert not refs.exists()


@pytest.mark.parametrize("name", ["refs.json", "refs.parquet", "repo"])
def test_an_existing_destination_is_not_replaced(name: str, tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK)
    place = icechunk_url(tmp_path / name) if name == "repo" else str(tmp_path / name)
    assert zarrlift.migrate(source, place, virtual=True).ok
    with pytest.raises(UsageError, match="exists"):
        zarrlift.migrate(source, place, virtual=True)
    zarrlift.plan(source, place, virtual=True)


def test_a_plan_says_which_arrays_cannot_be_referred_to(tmp_path: Path) -> None:
    made = zarrlift.plan(archive("zarr-2.18/codecs").path, tmp_path / "refs.json", virtual=True)
    assert {array.route.name for array in made.arrays} == {"stay"}
    assert made.virtual
    assert zarrlift.Plan.from_json(made.to_json()) == made
    reasons = {problem.message for refusal in made.refusals for problem in refusal.problems}
    assert any("no v3 reader supports codec" in reason for reason in reasons)
    assert sum(array.bytes_out for array in made.arrays) == 0


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.needs_reader(name)) for name in OF_S3])
def test_references_into_a_bucket_hold_the_etags_of_its_objects(name: str, tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK)
    objects = {f"pre fix/{file.relative_to(source)}": file.read_bytes() for file in files(source)}
    with server(name) as other, serving(other) as bucket:
        bucket.server.put(objects)
        place = icechunk_url(tmp_path / "repo")
        outcome = zarrlift.migrate("s3://bucket/pre fix", place, virtual=True, storage_options=bucket.options)
        assert outcome.ok, outcome.problems
        assert SECRET not in outcome.how_to_open
        store = opened_icechunk_bucket(place, "s3://bucket/")
        found = zarr.open_array(store, path="a", mode="r")
        assert found[:2, :3].tolist() == [[0, 1, 2], [3, 4, 5]]
        bucket.server.put({"pre fix/a/0.0": CHUNK[::-1]})
        with pytest.raises(Exception, match=r"checksum .* has changed"):
            found[:2, :3]


@pytest.mark.needs_reader("moto")
def test_headers_of_blocks_and_indexes_of_shards_are_read_from_a_bucket(tmp_path: Path) -> None:
    blocks = archive("n5/java-3.5.1/edges")
    with server("moto") as other, serving(other) as bucket:
        for name, path in (("blocks", blocks.path), ("shards", SHARDS)):
            content = {file.relative_to(path).as_posix(): file.read_bytes() for file in files(path)}
            place = icechunk_url(tmp_path / name)
            outcome = zarrlift.migrate(
                bucket.put(name, content), place, virtual=True, storage_options=bucket.options
            )
            failed = {problem.node for problem in outcome.problems}
            assert failed == ({"too_large"} if name == "blocks" else set())
            store = opened_icechunk_bucket(place, f"s3://bucket/{name}/")
            wanted = (
                {path: array.in_axes("reversed") for path, array in blocks.arrays.items()}
                if name == "blocks"
                else {path: array["values"] for path, array in SHARDED.items()}
            )
            for node in wanted.keys() - failed:
                assert np.array_equal(zarr.open_array(store, path=node, mode="r")[...], wanted[node])


def test_inner_chunks_of_shards_are_chunks(tmp_path: Path) -> None:
    for place, opened in (
        (str(tmp_path / "refs.json"), opened_kerchunk),
        (icechunk_url(tmp_path / "r"), opened_icechunk),
    ):
        assert zarrlift.migrate(SHARDS, place, virtual=True).ok
        store = opened(place, SHARDS)
        for path, expected in SHARDED.items():
            found = zarr.open_array(store, path=path, mode="r", zarr_format=3)
            assert found.shards is None
            assert found[...].tolist() == expected["values"]


@pytest.mark.parametrize("form", ["icechunk", "kerchunk"])
def test_plain_http_has_no_versions_and_says_so(form: str, tmp_path: Path) -> None:
    source = small(tmp_path / "old.zarr", c00=CHUNK, c11=CHUNK)
    zarr.consolidate_metadata(source, zarr_format=2)
    with in_ranges(tmp_path) as address:
        place = icechunk_url(tmp_path / "repo") if form == "icechunk" else str(tmp_path / "refs.json")
        if form == "icechunk" and icechunk.__version__.startswith("1."):
            with pytest.raises(UsageError, match="cannot refer to a URL with a port"):
                zarrlift.migrate(f"{address}/old.zarr", place, virtual=True)
            return
        outcome = zarrlift.migrate(f"{address}/old.zarr", place, virtual=True)
        assert (outcome.state, outcome.chunks) == ("done", 2)
        warnings = [problem for problem in outcome.plan.all_problems() if problem.severity == "warning"]
        assert [problem.kind for problem in warnings] == ["no-versions"]
        if form == "icechunk":
            assert zarrlift.verify(f"{address}/old.zarr", place, full=True).ok


def test_blocks_that_a_server_does_not_have_are_not_counted(tmp_path: Path) -> None:
    """Nothing lists them: neither their sizes nor their headers are there."""
    described = {
        "dimensions": [6, 4],
        "blockSize": [3, 2],
        "dataType": "int32",
        "compression": {"type": "raw"},
    }
    block = struct.pack(">HHII", 0, 2, 3, 2) + np.arange(6, dtype=">i4").tobytes()
    tree(tmp_path / "old.n5", {"attributes.json": described, "0/0": block})
    with in_ranges(tmp_path) as address:
        outcome = zarrlift.migrate(f"{address}/old.n5", str(tmp_path / "refs.json"), virtual=True)
        assert (outcome.state, outcome.chunks) == ("done", 1), outcome.problems


@contextmanager
def in_ranges(folder: Path) -> Iterator[str]:
    """The address of a web server that answers requests for ranges."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            asked, path = self.headers.get("Range"), Path(self.translate_path(self.path))
            if asked is None or not path.is_file():
                super().do_GET()
                return
            data = path.read_bytes()
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else len(data) - int(last)
            stop = min(int(last) + 1, len(data)) if first and last else len(data)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
            self.end_headers()
            self.wfile.write(data[start:stop])

    handler = functools.partial(Handler, directory=str(folder))
    with web_servers.serving(handler) as url:
        yield url


def files(root: Path) -> list[Path]:
    return [file for file in root.rglob("*") if file.is_file()]
