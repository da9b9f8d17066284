"""Hierarchies of the 2022 draft of v3: where nodes lie, what contradicts itself, what is left lying about."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support import fixtures_index
from tests.support.damaged_archives import copied, run
from tests.support.fixtures_index import archive, archives
from tests.support.v2_trees import node, tree, zarr_v3_draft
from tests.zarrlift.storage.conftest import in_memory
from zarr.storage import MemoryStore

import zarrlift
from zarrlift.archive.nodes import Archive, ArrayNode, GroupNode
from zarrlift.core.draft_v3.nodes import CONSOLIDATED, Dialect, DraftEntryPoint, write_entry
from zarrlift.core.grid.chunk_keys import DraftKeys
from zarrlift.formats.describe import describe
from zarrlift.storage.local.storage import LocalStorage
from zarrlift.storage.open_storage import open_storage
from zarrstack.core.errors import StorageError, UsageError

ENTRY = write_entry(DraftEntryPoint(dialect=Dialect.TEXT))
OLD_ENTRY = write_entry(DraftEntryPoint(dialect=Dialect.ZARR_PYTHON))
"""zarr-python's, whose keys have `root` in them."""
GROUP: dict[str, Any] = {"attributes": {}}
ARRAY: dict[str, Any] = {
    "shape": [4, 6],
    "data_type": "int32",
    "chunk_grid": {"type": "regular", "chunk_shape": [2, 3], "separator": "/"},
    "chunk_memory_layout": "C",
    "fill_value": 0,
    "extensions": [],
    "attributes": {},
}
CHUNK = bytes(24)
SHARDING = "https://purl.org/zarr/spec/storage_transformers/sharding/1.0"


def array(*, without: str = "", shards: list[int] | None = None, **changes: Any) -> dict[str, Any]:
    """An array's document that differs from a plain one; `shards` are chunks per shard."""
    document = {**ARRAY, **changes}
    if shards is not None:
        transformer = {
            "extension": SHARDING,
            "type": "indexed",
            "configuration": {"chunks_per_shard": shards},
        }
        document["storage_transformers"] = [transformer]
    return {name: value for name, value in document.items() if name != without}


def read(root: Path, entries: dict[str, Any], *, entry: Any = ENTRY, **options: Any) -> Archive:
    """The archive that these files make, its entry point besides."""
    return zarr_v3_draft.read(tree(root, {"zarr.json": entry, **entries}), **options)


BOTH = pytest.mark.parametrize(
    ("entry", "meta", "data"),
    [(ENTRY, "meta/", "data/"), (OLD_ENTRY, "meta/root/", "data/root/")],
    ids=["text", "zarr-python"],
)


def kinds(archive):
    """What each path is: "array", "group", or "implied"."""
    return {
        found.path: "array" if isinstance(found, ArrayNode) else "implied" if found.implicit else "group"
        for found in archive.nodes
    }


def told(archive):
    """Everything that is said of an archive, for `in`."""
    return "\n".join(str(problem) for problem in archive.all_problems())


# ----- nodes and keys


@BOTH
def test_nodes_are_found_by_their_documents_and_implied_by_their_children(tmp_path, entry, meta, data):
    archive = read(
        tmp_path,
        {
            f"{meta}foo.group.json": {"attributes": {"spam": "ham"}},
            f"{meta}foo/baz.array.json": array(attributes={"a": 1}),
            f"{meta}foo/implied/qux.array.json": ARRAY,
            f"{meta}bar.group.json": GROUP,
            f"{data}foo/baz/c0/1": CHUNK,
        },
        entry=entry,
    )
    assert kinds(archive) == {
        "": "implied",
        "bar": "group",
        "foo": "group",
        "foo/baz": "array",
        "foo/implied": "implied",
        "foo/implied/qux": "array",
    }
    assert archive.format == "zarr3-draft"
    assert archive.all_problems() == ()
    found = node(archive, "foo/baz")
    assert (found.attributes, node(archive, "foo").attributes) == ({"a": 1}, {"spam": "ham"})
    assert found.layout.key("foo/baz", (0, 1)) == f"{data}foo/baz/c0/1"
    assert [document.key for document in found.documents] == [f"{meta}foo/baz.array.json"]
    assert [document.key for document in archive.documents] == ["zarr.json"]


def test_a_hierarchy_without_nodes_is_an_empty_group(tmp_path):
    assert kinds(read(tmp_path, {})) == {"": "implied"}


def test_documents_have_the_suffix_that_the_entry_point_states(tmp_path):
    entry = {**ENTRY, "metadata_encoding": {"type": "json", "metadata_key_suffix": ".text"}}
    archive = read(tmp_path, {"meta/a.array.text": ARRAY, "meta/b.array.json": ARRAY}, entry=entry)
    assert kinds(archive) == {"": "implied", "a": "array"}
    assert [problem.key for problem in archive.problems] == ["meta/b.array.json"]
    assert "belongs to no node" in told(archive)


@BOTH
@pytest.mark.parametrize("there", ["c", "c0"])
def test_the_chunk_without_axes_is_found_under_either_name(tmp_path, entry, meta, data, there):
    document = array(shape=[], chunk_grid={"type": "regular", "chunk_shape": [], "separator": "/"})
    entries = {f"{meta}a.array.json": document, f"{data}a/{there}": bytes(4)}
    archive = read(tmp_path, entries, entry=entry)
    assert node(archive, "a").layout.key("a", ()) == f"{data}a/{there}"
    assert archive.all_problems() == ()


@pytest.mark.parametrize("there", ["c", "c0"])
def test_the_chunk_without_axes_is_found_where_a_store_cannot_list(tmp_path, there):
    document = array(shape=[], chunk_grid={"type": "regular", "chunk_shape": [], "separator": "/"})
    tree(tmp_path, {"zarr.json": ENTRY, "meta/array.json": document, f"data/{there}": bytes(4)})
    storage = open_storage(_copied(LocalStorage(tmp_path)))
    storage.can_list = False
    assert node(zarr_v3_draft.read(storage)).layout.key("", ()) == f"data/{there}"


@BOTH
def test_without_its_chunk_an_array_without_axes_has_the_dialects_own_key(tmp_path, entry, meta, data):
    document = array(shape=[], chunk_grid={"type": "regular", "chunk_shape": [], "separator": "."})
    layout = node(read(tmp_path, {f"{meta}a.array.json": document}, entry=entry), "a").layout
    assert layout.keys == DraftKeys(".", "c" if entry is ENTRY else "c0")


def test_filters_hide_in_the_attributes_of_zarr_pythons_arrays_only(tmp_path):
    filters = [{"id": "delta", "dtype": "<i4"}]
    document = array(attributes={"filters": filters, "mine": 1})
    old = node(read(tmp_path / "old", {"meta/root/a.array.json": document}, entry=OLD_ENTRY), "a")
    new = node(read(tmp_path / "new", {"meta/a.array.json": document}), "a")
    assert (str(old.layout.chain), old.attributes) == ("bytes:little > delta", {"mine": 1})
    assert (str(new.layout.chain), new.attributes) == ("bytes:little", {"filters": filters, "mine": 1})


# ----- what may be passed over, and what may not


def test_extensions_are_passed_over_where_they_may_be(tmp_path):
    optional = {"extension": "http://example.org/foo", "must_understand": False}
    archive = read(
        tmp_path,
        {"meta/a.array.json": array(extensions=[optional])},
        entry={**ENTRY, "extensions": [optional], "later": 1},
    )
    assert [(p.severity, p.key) for p in archive.all_problems()] == [
        ("warning", "zarr.json"),
        ("warning", "zarr.json"),
        ("warning", None),
    ]
    assert node(archive, "a").extra == {"extensions": [optional]}
    assert not node(archive, "a").refused


def test_without_an_entry_point_and_documents_there_is_no_hierarchy(tmp_path):
    with pytest.raises(UsageError, match=r"expected zarr\.json at its root"):
        zarr_v3_draft.read(tree(tmp_path, {"data/a/c0/0": CHUNK}))


def test_a_fallback_is_taken_only_where_it_is_allowed(tmp_path):
    unknown = {"extension": "http://example.org/fixed", "type": "fixed", "fallback": "int32"}
    entries = {"meta/a.array.json": array(data_type=unknown)}
    refused = node(read(tmp_path, entries), "a")
    assert "--set allow-fallback=true" in str(refused.problems[0])
    allowed = node(read(tmp_path, entries, allow_fallback=True), "a")
    assert allowed.layout.data_type.name == "int32"
    assert [(p.kind, p.severity) for p in allowed.problems] == [("fallback", "warning")]


# ----- contradictions


@pytest.mark.parametrize(
    ("key", "refused", "said"),
    [
        ("meta/a b.array.json", False, "the draft; Zarr v3 allows the name"),
        ("meta/é.array.json", False, "the draft; Zarr v3 allows the name"),
        ("meta/....array.json", True, "consists of periods only"),
        ("meta/zarr.json.array.json", True, "a node is named zarr.json"),
        ("meta/__a.array.json", False, "names that start with __ are reserved"),
    ],
)
def test_names_that_zarr_v3_does_not_allow_are_refused_others_told(tmp_path, key, refused, said):
    archive = read(tmp_path, {key: ARRAY})
    (found,) = (found for found in archive.nodes if isinstance(found, ArrayNode))
    assert found.refused == refused
    assert said in told(archive)


def test_names_that_differ_by_case_are_told(tmp_path):
    archive = read(tmp_path, {"meta/g/A.array.json": ARRAY, "meta/g/a.array.json": ARRAY})
    assert "two names differ only by case" in told(archive)


# ----- chunks, and what belongs to nothing


@BOTH
def test_chunks_without_an_array_are_refused_at_one_of_their_keys(tmp_path, entry, meta, data):
    entries = {
        f"{meta}g.group.json": GROUP,
        f"{meta}g/a.array.json": ARRAY,
        f"{data}g/a/c0/0": CHUNK,
        f"{data}g/lost/c0/1": CHUNK,
        f"{data}gone/with/all/c1.2": CHUNK,
    }
    archive = read(tmp_path, entries, entry=entry)
    assert [
        (found.path, found.problems[0].key, found.problems[0].expected)
        for found in archive.nodes
        if getattr(found, "refused", False)
    ] == [
        ("g/lost", f"{data}g/lost/c0/1", f"a document '{meta}g/lost.array.json'"),
        ("gone/with/all", f"{data}gone/with/all/c1.2", f"a document '{meta}gone/with/all.array.json'"),
    ]
    assert not node(archive, "g/a").refused


def test_the_chunks_of_a_lost_root_are_refused(tmp_path):
    archive = read(tmp_path, {"data/c0/0": CHUNK})
    assert [found.path for found in archive.nodes if found.refused] == ["c0"]
    archive = read(tmp_path / "dots", {"data/c0.0": CHUNK})
    assert kinds(archive) == {"": "array"}
    assert node(archive).problems[0].key == "data/c0.0"


def test_a_chunk_beside_nodes_is_told(tmp_path):
    archive = read(tmp_path, {"meta/group.json": GROUP, "meta/a.array.json": ARRAY, "data/c0.0": CHUNK})
    (problem,) = archive.problems
    assert (problem.message, problem.severity, problem.key) == (
        "chunks without an array",
        "warning",
        "data/c0.0",
    )


def test_a_file_where_an_arrays_chunks_belong_refuses_it(tmp_path):
    archive = read(tmp_path, {"meta/a.array.json": ARRAY, "data/a": b"?"})
    (problem,) = node(archive, "a").problems
    assert (problem.severity, problem.key) == ("refusal", "data/a")


def test_what_belongs_to_no_node_is_named(tmp_path):
    apple = b"\x00\x05\x16\x07" + bytes(50)
    entries = {
        "README.txt": b"",
        "meta/notes.txt": b"",
        "data/g/notes.txt": b"",
        "meta/g/a.array.json": ARRAY,
        "meta/g/._a.array.json": apple,
        "meta/.DS_Store": b"",
        "data/g/Thumbs.db": b"",
    }
    archive = read(tmp_path, entries)
    assert [(p.severity, p.key) for p in archive.all_problems()] == [
        ("note", "README.txt"),
        ("note", "meta/notes.txt"),
        ("note", "data/g/notes.txt"),
    ]
    many = read(tmp_path / "many", {f"{index}.txt": b"" for index in range(30)})
    assert len(many.problems) == 21
    assert many.problems[-1].message == "10 more files that belong to no node are not copied"


# ----- consolidated metadata


def consolidated(entries):
    return {CONSOLIDATED: {"zarr_consolidated_format": 1, "metadata": {"zarr.json": OLD_ENTRY, **entries}}}


GHOST = {"meta/root/consolidated.group.json": GROUP}


def test_the_group_that_stands_for_consolidated_metadata_is_no_node(tmp_path):
    entries = {"meta/root.group.json": GROUP, "meta/root/a.array.json": ARRAY, **GHOST}
    archive = read(tmp_path, {**entries, **consolidated(entries)}, entry=OLD_ENTRY)
    assert kinds(archive) == {"": "group", "a": "array"}
    assert archive.consolidated
    assert archive.all_problems() == ()
    assert [document.key for document in archive.documents] == ["zarr.json", CONSOLIDATED, *GHOST]


@pytest.mark.parametrize(
    "more",
    [
        {"meta/root/consolidated/a.array.json": ARRAY},
        {"meta/root/consolidated.group.json": {"attributes": {"mine": 1}}},
    ],
    ids=["children", "attributes"],
)
def test_a_group_of_that_name_that_is_somebodys_stays(tmp_path, more):
    entries = {**GHOST, **more}
    archive = read(tmp_path, {**entries, **consolidated(entries)}, entry=OLD_ENTRY)
    assert kinds(archive)["consolidated"] == "group"


def test_without_consolidated_metadata_the_name_means_nothing(tmp_path):
    assert kinds(read(tmp_path, GHOST, entry=OLD_ENTRY))["consolidated"] == "group"


def test_documents_win_over_consolidated_metadata(tmp_path):
    entries = {"meta/root/a.array.json": ARRAY, "meta/root/b.array.json": ARRAY}
    stale = {"meta/root/a.array.json": array(fill_value=7), "meta/root/ghost.array.json": ARRAY}
    archive = read(tmp_path, {**entries, **consolidated(stale)}, entry=OLD_ENTRY)
    assert node(archive, "a").layout.fill_value == 0
    assert {(p.severity, p.node, p.key) for p in archive.problems} == {
        ("warning", "a", "meta/root/a.array.json"),
        ("warning", "b", "meta/root/b.array.json"),
        ("warning", "ghost", "meta/root/ghost.array.json"),
    }


def test_broken_consolidated_metadata_is_a_warning(tmp_path):
    archive = read(tmp_path, {"meta/root/a.array.json": ARRAY, CONSOLIDATED: b"{"}, entry=OLD_ENTRY)
    (problem,) = archive.problems
    assert (problem.kind, problem.severity, problem.key) == ("consolidated", "warning", CONSOLIDATED)
    assert not archive.consolidated


# ----- links, in local archives


@pytest.fixture
def linked(tmp_path):
    """An archive and a place outside it."""
    root, outside = tmp_path / "a.zarr", tmp_path / "outside"
    tree(outside, {"c0/0": CHUNK, "b.array.json": ARRAY})
    tree(root, {"zarr.json": ENTRY, "meta/g/a.array.json": ARRAY, "data/g/a/c0/0": CHUNK})
    return root, outside


def test_links_do_not_lead_out_of_the_archive_unasked(linked):
    root, outside = linked
    (root / "meta/g/b.array.json").symlink_to(outside / "b.array.json")
    (root / "meta/h").symlink_to(outside, target_is_directory=True)
    shutil.rmtree(root / "data/g/a")
    (root / "data/g/a").symlink_to(outside, target_is_directory=True)
    archive = zarr_v3_draft.read(LocalStorage(root))
    assert {found.path: found.problems[0].message for found in archive.nodes if found.problems} == {
        "g/a": "a link points outside the archive",
        "g/b": "a link points outside the archive",
        "h": "a link points outside the archive",
    }
    followed = zarr_v3_draft.read(LocalStorage(root), follow_links=True)
    assert kinds(followed)["h/b"] == "array"
    assert not any(getattr(found, "refused", False) for found in followed.nodes)


def test_links_that_lead_nowhere_or_back_are_refused(linked):
    root, _ = linked
    (root / "meta/g/again").symlink_to(root / "meta", target_is_directory=True)
    (root / "meta/g/gone.array.json").symlink_to(root / "nowhere")
    shutil.rmtree(root / "data/g")
    (root / "data/g").symlink_to(root / "nowhere")
    archive = zarr_v3_draft.read(LocalStorage(root))
    assert {found.path: found.problems[0].message for found in archive.nodes if found.problems} == {
        "g/a": "a link leads nowhere",
        "g/again": "a link points to a directory above it",
        "g/gone": "a link leads nowhere",
    }


# ----- other stores


def _copied(storage):
    """The same objects in a store that is no directory."""
    from zarr.core.buffer import default_buffer_prototype

    objects = {key: storage.get(key) for key in storage.list_prefix("")}
    make = default_buffer_prototype().buffer.from_bytes
    return MemoryStore({key: make(content) for key, content in objects.items()})


def test_a_store_that_cannot_list_is_read_by_its_consolidated_metadata():
    local = LocalStorage(fixtures_index.archive("zarr_v3_draft/zarr-2.18/consolidated").path)
    storage = open_storage(_copied(local))
    storage.can_list = False
    found, known = zarr_v3_draft.read(storage), zarr_v3_draft.read(local)
    assert kinds(found) == kinds(known)
    assert [n.layout for n in found.nodes if isinstance(n, ArrayNode)] == [
        n.layout for n in known.nodes if isinstance(n, ArrayNode)
    ]


def test_without_listing_and_consolidated_metadata_only_a_root_array_is_found(tmp_path):
    storage = open_storage(_copied(tree(tmp_path, {"zarr.json": ENTRY, "meta/array.json": ARRAY})))
    storage.can_list = False
    assert kinds(zarr_v3_draft.read(storage)) == {"": "array"}
    storage = open_storage(_copied(tree(tmp_path / "b", {"zarr.json": ENTRY, "meta/a.array.json": ARRAY})))
    storage.can_list = False
    with pytest.raises(UsageError, match="cannot be found"):
        zarr_v3_draft.read(storage)


class Failing(LocalStorage):
    """Storage that fails for some keys."""

    def __init__(self, root, *bad):
        super().__init__(root)
        self.bad = bad

    def get(self, key, bound=None):
        if key in self.bad:
            raise StorageError("cannot read", key=key, found="Permission denied")
        return super().get(key, bound)

    def list_dir(self, prefix):
        if prefix in self.bad:
            raise StorageError("cannot list", key=prefix, found="Permission denied")
        return super().list_dir(prefix)


def test_what_cannot_be_read_keeps_back_its_node_alone(tmp_path):
    entries = {
        "zarr.json": ENTRY,
        "meta/a.array.json": ARRAY,
        "meta/b.array.json": ARRAY,
        "meta/g.group.json": GROUP,
        "meta/g/c.array.json": ARRAY,
    }
    tree(tmp_path, entries)
    archive = zarr_v3_draft.read(Failing(tmp_path, "meta/a.array.json", "meta/g"))
    refused = {found.path: found.problems[0].key for found in archive.nodes if found.refused}
    assert refused == {"a": "meta/a.array.json", "g": "meta/g"}
    assert isinstance(node(archive, "g"), GroupNode)
    with pytest.raises(StorageError):
        zarr_v3_draft.read(Failing(tmp_path, "meta"))


def test_documents_are_asked_for_once_and_chunks_never(tmp_path):
    entries = {"zarr.json": ENTRY, **{f"meta/g/{i}.array.json": ARRAY for i in range(5)}}
    entries.update({f"data/g/{i}/c0/0": CHUNK for i in range(5)})
    tree(tmp_path, entries)
    asked = []

    class Counting(LocalStorage):
        def get(self, key, bound=None):
            asked.append(key)
            return super().get(key, bound)

        def list_dir(self, prefix):
            asked.append(prefix + "/")
            return super().list_dir(prefix)

    zarr_v3_draft.read(Counting(tmp_path))
    assert sorted(asked) == sorted(
        [
            "zarr.json",
            "meta/",
            "meta/g/",
            *(f"meta/g/{i}.array.json" for i in range(5)),
            "data/",
            "data/g/",
            "/",
        ]
    )


def test_a_group_without_a_document_is_checked_for_its_name(tmp_path):
    archive = read(tmp_path, {"meta/__b/a.array.json": array()})
    (told,) = node(archive, "__b").problems
    assert (told.kind, told.severity) == ("name", "warning")


# Hierarchies of the 2022 draft that have lost `zarr.json`: read by what their documents' keys show.


def lost(name: str, folder: Path) -> Path:
    """A copy of an archive without its entry point."""
    place = copied(archive(name).path, folder / "lost.zarr")
    (place / "zarr.json").unlink()
    return place


def entry_told(storage: LocalStorage) -> str:
    """The advice about the entry point."""
    (problem,) = (item for item in describe(storage).problems if item.key == "zarr.json")
    assert problem.severity == "warning"
    assert "entry point" in problem.message
    return problem.advice or ""


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize("name", [one.name for one in archives("zarr_v3_draft")])
def test_the_same_nodes_are_found_with_and_without_it(name: str, tmp_path: Path) -> None:
    place = lost(name, tmp_path)
    whole, found = describe(LocalStorage(archive(name).path)), describe(LocalStorage(place))
    assert found.format == "zarr3-draft"
    assert found.nodes == whole.nodes
    assert found.consolidated == whole.consolidated
    entry_told(LocalStorage(place))


@pytest.mark.parametrize(
    "name",
    [f"zarr_v3_draft/{name}" for name in ("zarr-2.18/tree", "zarrita/all", "gdal/gzip", "may-2022/tree")],
)
def test_what_is_to_be_put_there_is_what_was_there(name: str, tmp_path: Path) -> None:
    """Spaces and the order of members apart."""
    advice = entry_told(LocalStorage(lost(name, tmp_path)))
    meant = json.loads(advice[advice.index("{") : advice.rindex("}") + 1])
    assert meant == json.loads((archive(name).path / "zarr.json").read_bytes())


def test_it_migrates_with_the_values_it_has(tmp_path: Path) -> None:
    name = "zarr_v3_draft/zarr-2.18/consolidated"
    ran = run("migrate", lost(name, tmp_path), tmp_path / "out.zarr")
    assert ran.code == 0
    assert "entry point of this hierarchy of the 2022 draft is missing" in " ".join(ran.out.split())
    assert zarrlift.verify(archive(name).path, tmp_path / "out.zarr", full=True).ok


def test_in_a_store_it_is_found_too(tmp_path: Path) -> None:
    place = lost("zarr_v3_draft/zarr-2.18/implicit_root", tmp_path)
    assert zarrlift.inspect(in_memory(place, tmp_path)).format == "zarr3-draft"


@pytest.mark.parametrize(
    ("entries", "entry"),
    [
        ({"meta/root/a.array.json": ARRAY, "data/root/a/c0/0": CHUNK}, OLD_ENTRY),
        ({"meta/root.group.json": GROUP}, OLD_ENTRY),
        ({"meta/root.array.json": ARRAY, "meta/.DS_Store": b"x"}, OLD_ENTRY),
        ({"meta/a.array.json": ARRAY}, ENTRY),
        ({"meta/array.json": ARRAY}, ENTRY),
        ({"meta/group.json": GROUP, "meta/root/a.array.json": ARRAY}, ENTRY),
        ({"meta/a/b.array.json": ARRAY, "meta/root/a.array.json": ARRAY}, ENTRY),
    ],
)
def test_the_keys_show_the_dialect(entries: dict[str, Any], entry: dict[str, Any], tmp_path: Path) -> None:
    assert json.dumps(entry) in entry_told(tree(tmp_path, entries))
