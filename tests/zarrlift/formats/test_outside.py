"""Formats of other packages: found, asked, checked. What a bad one does is one message that names it."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
import zarr

import zarrlift
from zarrlift.cli import main
from zarrlift.errors import JobError, MetadataError, Problem, UsageError
from zarrlift.formats import Array, Directory, Group, NodeKind, SourceFormat, json_object, register, registry
from zarrlift.formats.detect import detect
from zarrlift.recipe import format_names
from zarrlift.storage.open_storage import open_storage
from zarrlift.testing import installed

DOCUMENT = "slab.json"


class Slabs(SourceFormat):
    """One axis, one directory: `slab.json` has what the test wants described."""

    name = "slabs"
    documents = (DOCUMENT,)

    def recognise(self, document: str, content: bytes) -> NodeKind | None:
        data = json_object(content)
        return None if data is None or "slab" not in data else data["slab"]

    def node(self, directory: Directory) -> Array | Group | None:
        data = directory.json(DOCUMENT)
        if data["slab"] == "group":
            return Group(path=directory.path, documents=[directory.key(DOCUMENT)])
        return Array(**{**array(directory.path), **data.get("changed", {})})


def array(path: str) -> dict:
    return {
        "path": path,
        "shape": [10],
        "chunk_shape": [4],
        "data_type": "int16",
        "codecs": [{"name": "bytes", "configuration": {"endian": "big"}}],
        "keys": "part-{0}",
        "documents": [f"{path}/{DOCUMENT}".lstrip("/")],
        "fill_value": 3,
    }


class Index(Slabs):
    """One index of all arrays, which share a directory."""

    name = "index"
    documents = ("index.json",)
    node = SourceFormat.node

    def recognise(self, document, content):
        return "group" if json_object(content) else None

    def read(self, files):
        data = json.loads(files.read("index.json"))
        yield Group(path="", attributes=data.get("attributes", {}), documents=["index.json"])
        for name in data["arrays"]:
            there = {"keys": f"{name}-{{0:02}}", "directory": "store", "documents": ["index.json"]}
            yield Array(**{**array(name), **there})


def slab(folder: Path, kind: str = "array", **changed: object) -> Path:
    """A node, with its chunks if it is an array: 0 to 9."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / DOCUMENT).write_text(json.dumps({"slab": kind, "changed": changed}))
    if kind == "array":
        chunks(folder, "part-{0}")
    return folder


def chunks(folder: Path, pattern: str, first: int = 0) -> None:
    values = np.full(12, 3, ">i2")
    values[:10] = np.arange(first, first + 10)
    for number in range(3):
        (folder / pattern.format(number)).write_bytes(values[4 * number : 4 * number + 4].tobytes())


def refused(folder: Path) -> dict[str, str]:
    """Path of each refused node -> its reason."""
    return {
        problem.node: str(problem)
        for problem in zarrlift.plan(folder, folder.parent / "new").all_problems()
        if problem.severity == "refusal"
    }


@pytest.fixture
def slabs():
    with installed(Slabs, Index):
        yield


@pytest.fixture
def install(monkeypatch):
    """A function that registers objects of this module by name, several of one name too."""

    def install(*pairs: tuple[str, str]) -> None:
        points = tuple(EntryPoint(name, f"{__name__}:{value}", format_names.GROUP) for name, value in pairs)
        monkeypatch.setattr(format_names, "outside", lambda: points)
        registry.forget()

    yield install
    registry.forget()


# ----- what a format describes


def test_arrays_and_groups_become_nodes(tmp_path, slabs):
    old = slab(tmp_path / "old", "group")
    slab(old / "g/a", attributes={"n": float("nan"), "l": (1, 2)}, dimension_names=["x"])
    archive = zarrlift.inspect(old)
    assert archive.format == "slabs"
    assert [(node.path, node.documents[0].key if node.documents else None) for node in archive.nodes] == [
        ("", DOCUMENT),
        ("g", None),
        ("g/a", f"g/a/{DOCUMENT}"),
    ]
    assert archive.nodes[2].attributes["l"] == [1, 2]
    assert archive.nodes[2].layout.dimension_names == ("x",)
    assert zarrlift.open(old)["g/a"][:].tolist() == list(range(10))


def test_arrays_may_share_a_directory(tmp_path, slabs):
    (tmp_path / "old/store").mkdir(parents=True)
    (tmp_path / "old/index.json").write_text(json.dumps({"arrays": ["a", "b"]}))
    chunks(tmp_path / "old/store", "a-{0:02}")
    chunks(tmp_path / "old/store", "b-{0:02}", 20)
    plan = zarrlift.plan(tmp_path / "old", tmp_path / "new")
    assert [str(problem) for problem in plan.all_problems()] == []
    assert zarrlift.migrate(tmp_path / "old", tmp_path / "new").ok
    root = zarr.open_group(tmp_path / "new", mode="r")
    assert [root[name][:].tolist() for name in "ab"] == [list(range(10)), list(range(20, 30))]
    assert zarrlift.verify(tmp_path / "old", tmp_path / "new", full=True).ok
    (tmp_path / "old/store/a-00x").touch()
    (stray,) = zarrlift.plan(tmp_path / "old", tmp_path / "other").all_problems()
    assert (stray.kind, stray.node) == ("stray", "a")


@pytest.mark.parametrize(
    ("keys", "in_place"),
    [("{0}", True), ("c/{0}", True), ("c.{0}", True), ("part-{0}", False), ("d/{0:02}", False)],
)
def test_in_place_where_v3_has_such_keys(keys, in_place, tmp_path, slabs):
    old = slab(tmp_path / "old" / "a", keys=keys).parent
    for number in range(3):
        target = old / "a" / keys.format(number)
        target.parent.mkdir(exist_ok=True)
        (old / f"a/part-{number}").rename(target)
    if not in_place:
        (reason,) = refused_in_place(old)
        assert "Zarr v3 has no encoding for these chunk keys" in reason
        assert zarrlift.migrate(old, tmp_path / "new").ok
        assert zarrlift.verify(old, tmp_path / "new", full=True).ok
        return
    assert zarrlift.migrate(old, in_place=True).ok
    assert zarr.open_array(old / "a", mode="r")[:].tolist() == list(range(10))
    assert zarrlift.verify(old, full=True).ok
    assert zarrlift.finish(old).ok
    assert not (old / "a" / DOCUMENT).exists()
    assert zarr.open_array(old / "a", mode="r")[:].tolist() == list(range(10))
    zarrlift.undo(old)
    assert (old / "a" / DOCUMENT).exists()


def refused_in_place(folder: Path) -> list[str]:
    problems = zarrlift.plan(folder, in_place=True).all_problems()
    return [str(problem) for problem in problems if problem.severity == "refusal"]


def test_chunks_in_another_directory_are_not_migrated_in_place(tmp_path, slabs):
    old = slab(tmp_path / "old" / "a", keys="{0}", directory="elsewhere").parent
    (reason,) = refused_in_place(old)
    assert "below the array's own path; found chunks below /elsewhere" in reason


def test_a_format_without_fill_value_has_zero(tmp_path, slabs):
    old = slab(tmp_path / "old" / "a", fill_value=None).parent
    (old / "a/part-1").unlink()
    (note,) = [p for p in zarrlift.plan(old, tmp_path / "new").all_problems() if p.kind == "fill-null"]
    assert "0" in note.message
    assert zarrlift.open(old)["a"][4:8].tolist() == [0] * 4


def test_chunks_in_the_root_are_no_strays(tmp_path, slabs):
    old = slab(tmp_path / "old" / "a", directory="", keys="a-{0}").parent
    chunks(old, "a-{0}")
    for number in range(3):
        (old / f"a/part-{number}").unlink()
    assert zarrlift.plan(old, tmp_path / "new").all_problems() == ()
    assert zarrlift.open(old)["a"][:].tolist() == list(range(10))


def test_nested_nodes_and_stray_files_are_told(tmp_path, slabs):
    old = slab(tmp_path / "old" / "a").parent
    slab(old / "a/inner")
    (old / "lost.txt").touch()
    (old / "a/notes.txt").touch()
    problems = zarrlift.plan(old, tmp_path / "new").all_problems()
    assert {(p.kind, p.node or p.key) for p in problems} == {
        ("metadata", "a/inner"),
        ("stray", "a"),
        ("stray", "lost.txt"),
    }


# ----- detection


def test_two_formats_in_one_place_are_ambiguous(tmp_path, slabs):
    old = slab(tmp_path / "old")
    zarr.create_array(old, shape=(2,), dtype="i2", zarr_format=2)
    with pytest.raises(UsageError, match=r"metadata of two formats.*--from zarr2 or --from slabs"):
        zarrlift.inspect(old)
    assert zarrlift.inspect(old, format="slabs").nodes[0].layout.shape == (10,)
    assert zarrlift.inspect(old, format="zarr2").nodes[0].layout.shape == (2,)


def test_an_implicit_root_is_found_by_the_nodes_below(tmp_path, slabs):
    slab(tmp_path / "old/x/a")
    assert detect(open_storage(tmp_path / "old")) == "slabs"


def test_another_programs_document_is_no_archive(tmp_path, slabs):
    (tmp_path / DOCUMENT).write_text("{}")
    with pytest.raises(UsageError, match=f"no archive found.*expected one of .*{DOCUMENT}"):
        zarrlift.inspect(tmp_path)


def test_an_unknown_name_is_answered_with_the_known_ones(tmp_path, slabs, capsys):
    assert main(["inspect", str(tmp_path), "--from", "slab"]) == 2
    assert "unknown format 'slab'; expected index, n5, slabs, " in (said := capsys.readouterr().err)
    assert said.endswith("Did you mean 'slabs'?\n")
    manifest = tmp_path / "rows.csv"
    manifest.write_text(f"source,destination,format\n{tmp_path},{tmp_path}/new,slab\n")
    assert main(["batch", "run", "--dry-run", str(manifest)]) == 2
    assert "unknown format 'slab'" in capsys.readouterr().err


def test_a_format_is_looked_up_only_where_it_may_be_meant(tmp_path, install):
    install(("slabs", "NoSuchClass"))
    zarr.create_array(tmp_path / "old", shape=(2,), dtype="i2", zarr_format=2)
    assert zarrlift.inspect(tmp_path / "old", format="zarr2").format == "zarr2"
    with pytest.raises(UsageError, match=r"'slabs' cannot be loaded.*choose another format with --from"):
        zarrlift.inspect(tmp_path / "old")


# ----- formats that cannot be used


class Nameless(Slabs):
    name = "other"


class NoDocuments(Slabs):
    documents = ()


class OneText(Slabs):
    documents = "slab.json"


class APath(Slabs):
    documents = ("a/slab.json",)


class Abstract(SourceFormat):
    name = "slabs"
    documents = (DOCUMENT,)


class Angry(Slabs):
    def recognise(self, document, content):
        raise KeyError("angry")


class Vague(Slabs):
    def recognise(self, document, content):
        return True


class Needy(Slabs):
    def __init__(self, wish):
        self.wish = wish


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("NoSuchClass", "cannot be loaded from"),
        ("DOCUMENT", "is not a format"),
        ("Path", "is not a format"),
        ("Nameless", "has another name; found 'other'"),
        ("NoDocuments", r"names no documents; found \(\)"),
        ("OneText", "names no documents; found 'slab.json'"),
        ("APath", "names no documents"),
        ("Abstract", "fails to recognise a document; found TypeError: .*abstract"),
        ("Angry", "fails to recognise a document; found KeyError: 'angry'"),
        ("Vague", "recognises a document as something else; found True"),
        ("Needy", "fails to recognise a document; found TypeError: .*wish"),
    ],
)
def test_a_format_that_cannot_be_used_is_named(value, words, tmp_path, install, capsys):
    install(("slabs", value))
    old = slab(tmp_path / "old")
    for asked in ({}, {"format": "slabs"}):
        with pytest.raises(UsageError, match=words) as caught:
            zarrlift.inspect(old, **asked)
        assert f"{__name__}:{value}" in str(caught.value)
        assert "ninstall" in str(caught.value) or "expected" in str(caught.value)
    assert main(["inspect", str(old)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_two_of_one_name_are_named(tmp_path, install):
    install(("slabs", "Slabs"), ("slabs", "Index"))
    with pytest.raises(UsageError, match=r"more than one format is called 'slabs'.*Uninstall one"):
        zarrlift.inspect(slab(tmp_path / "old"))


def test_the_name_of_a_built_in_format_is_refused(tmp_path, install):
    install(("zarr2", "Slabs"))
    words = "a package registers a format 'zarr2', which is the name of one of zarrlift's own"
    with pytest.raises(UsageError, match=words):
        zarrlift.inspect(slab(tmp_path / "old"))


# ----- formats registered at run time


def test_a_class_of_a_cell_is_a_format_once_it_is_registered(tmp_path, slabs):
    old = slab(tmp_path / "old")

    @register
    class Local(Slabs):
        name = "local"

        def recognise(self, document, content):
            return None

    assert zarrlift.inspect(old).format == "slabs"

    @register  # the cell is run again
    class Local(Local):
        def recognise(self, document, content):
            return "array"

    assert zarrlift.migrate(old, tmp_path / "new", format="local").raise_for_problems().state == "done"
    assert zarr.open_array(tmp_path / "new", mode="r")[:].tolist() == list(range(10))
    registry.replace_registered({})
    with pytest.raises(JobError, match=r"calls zarrlift.formats.register with .*:.*Local"):
        zarrlift.verify(old, tmp_path / "new")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (type("Zarr2", (Slabs,), {"name": "zarr2"}), "needs a name that is not one of zarrlift's own"),
        (object, "needs a name"),
        (type("NoFormat", (), {"name": "none"}), "is not a format"),
        (NoDocuments, "names no documents"),
    ],
)
def test_what_is_no_format_is_not_registered(value, words, slabs):
    with pytest.raises(UsageError, match=words):
        register(value)
    assert set(format_names.at_run_time) == {"slabs", "index"}
    assert registry.find("slabs") is Slabs


# ----- formats that describe nonsense

NODE_FAULTS = {
    "no shape": {"shape": None},
    "a shape of text": {"shape": ["ten"]},
    "another number of axes": {"chunk_shape": [4, 4]},
    "a chunk of length 0": {"chunk_shape": [0]},
    "a negative shape": {"shape": [-1]},
    "no such data type": {"data_type": "int17"},
    "a numpy type": {"data_type": 3},
    "no such codec": {"codecs": [{"name": "bytes"}, {"name": "magic"}]},
    "no codec to bytes": {"codecs": []},
    "a wrong configuration": {"codecs": [{"name": "bytes", "configuration": {"endian": "middle"}}]},
    "a fill value of another type": {"fill_value": "three"},
    "a fill value beyond the type": {"fill_value": 1 << 20},
    "keys of two axes": {"keys": "{0}.{1}"},
    "keys of no axis": {"keys": "part"},
    "keys outside": {"keys": "../part-{0}"},
    "keys that are no text": {"keys": 5},
    "a directory outside": {"directory": "../there"},
    "a directory that is none": {"directory": 7},
    "no documents": {"documents": []},
    "a missing document": {"documents": ["nothing.json"]},
    "a document outside": {"documents": ["../slab.json"]},
    "a document that is a chunk": {"documents": ["bad/part-1"]},
    "attributes of text": {"attributes": "hello"},
    "names of another number": {"dimension_names": ["x", "y"]},
    "an unknown field": {"colour": "red"},
}


@pytest.mark.parametrize("changed", NODE_FAULTS.values(), ids=NODE_FAULTS)
def test_a_wrong_description_refuses_its_node_alone(changed, tmp_path, slabs):
    old = tmp_path / "old"
    slab(old / "bad", **changed)
    slab(old / "good")
    (tmp_path / DOCUMENT).write_text("{}")
    found = refused(old)
    assert list(found) == ["bad"], found
    outcome = zarrlift.migrate(old, tmp_path / "new")
    assert not outcome.ok
    assert zarr.open_group(tmp_path / "new", mode="r")["good"][:].tolist() == list(range(10))
    assert not (tmp_path / "new/bad").exists()


ODD = {
    "shape": (5, "ab", [1.5]),
    "chunk_shape": (5, "4", None),
    "data_type": (np.dtype("i2"), np.int16, None, b"int16"),
    "codecs": (None, 5, "bytes", [None], [5], {"name": "bytes"}, [np.int8(1)]),
    "fill_value": (np.int16(3), 1j, [3], b"3"),
    "keys": (None, b"part-{0}", ["part-{0}"]),
    "documents": (None, 5, [None], [5], [b"slab.json"], ["/etc/passwd"], [""]),
    "directory": (b"", 5, "/", "a//b"),
    "attributes": (None, 5, [], 1j),
    "dimension_names": (5, [5], "x" * 3),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in ODD for value in ODD[name]], ids=repr)
def test_an_odd_value_refuses_its_node_with_a_reason(name, value, tmp_path, monkeypatch, slabs, capsys):
    monkeypatch.setattr(Slabs, "node", lambda self, at: Array(**{**array(at.path), name: value}))
    old = slab(tmp_path / "old/a").parent
    assert main(["migrate", "--dry-run", str(old), str(tmp_path / "new")]) == 1
    said = capsys.readouterr()
    words = "".join(said.out.split())  # of which lines are broken at 80 columns
    assert "1noderefused" in words
    assert "oftests.zarrlift.formats.test_outside:Slabs" in words or "notthekeyofafile" in words
    assert "Traceback" not in said.err


@pytest.mark.parametrize("attributes", [{"a": np.int64(1)}, {"a": b"x"}, {(1, 2): 3}, {"a": {4}}])
def test_attributes_that_are_not_json_are_refused(attributes, tmp_path, monkeypatch, slabs):
    monkeypatch.setattr(Slabs, "node", lambda self, at: Array(**{**array(at.path), "attributes": attributes}))
    assert "its attributes are not JSON" in refused(slab(tmp_path / "old"))[""]


def test_lengths_of_numpy_are_lengths(tmp_path, monkeypatch, slabs):
    lengths = {"shape": (np.int64(10),), "chunk_shape": np.array([4])}
    monkeypatch.setattr(Slabs, "node", lambda self, at: Array(**{**array(at.path), **lengths}))
    assert zarrlift.open(slab(tmp_path / "old"))[:].tolist() == list(range(10))


def test_an_error_at_one_node_refuses_it_alone(tmp_path, slabs):
    old = slab(tmp_path / "old", "group")
    slab(old / "good")
    (old / "damaged").mkdir()
    (old / "damaged" / DOCUMENT).write_text('{"slab": "array", ')
    (old / "other").mkdir()
    (old / "other" / DOCUMENT).write_text("{}")
    found = refused(old)
    assert set(found) == {"damaged", "other"}
    assert found["damaged"].startswith(f"/damaged, key 'damaged/{DOCUMENT}': the document is not JSON")
    assert "the format 'slabs' of" in found["other"]
    assert "fails to describe a node; found KeyError: 'slab'" in found["other"]
    assert "report this to the authors of" in found["other"]


def gives(*items: object):
    def read(self, files):
        yield from items

    return read


def fails(self, files):
    yield Group(path="")
    raise ZeroDivisionError("no tiles")


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (fails, "fails to read an archive; found ZeroDivisionError: no tiles"),
        (lambda self, files: None, "fails to read an archive; found TypeError"),
        (gives("a"), 'describes something else; found "a"'),
        (gives(None), "describes something else; found null"),
        (gives(Group(path=None)), "gives something else than the path of a node"),
        (gives(Group(path="/a")), "gives something else than the path of a node"),
        (gives(Problem(kind="x", message="y", node=7)), "gives something else than the path of a node"),
        (gives(), "no slabs archive found"),
        (lambda self, files: [files.read("../secret")], "not the key of a file in the archive"),
        (lambda self, files: [files.read(5)], "not the key of a file in the archive"),
        (lambda self, files: files.names("a/../.."), "not the key of a file in the archive"),
        (SourceFormat.read, "overrides neither `node` nor `read`"),
    ],
)
def test_a_format_that_fails_as_a_whole_is_one_error(read, words, tmp_path, monkeypatch, slabs, capsys):
    monkeypatch.setattr(Slabs, "read", read)
    if read is SourceFormat.read:
        monkeypatch.setattr(Slabs, "node", SourceFormat.node)
    old = slab(tmp_path / "old")
    code = main(["inspect", str(old)])
    output = capsys.readouterr()
    assert code in (1, 2)
    assert words in output.out + output.err
    assert "Traceback" not in output.err


def test_a_node_described_twice_is_refused(tmp_path, monkeypatch, slabs):
    twice = Array(**array("a"))
    monkeypatch.setattr(Slabs, "read", gives(twice, twice, Array(**array("a/b")), Group(path="x/..")))
    old = slab(tmp_path / "old" / "a").parent
    slab(old / "a/b")
    found = refused(old)
    assert "described twice" in found["a"]
    assert "a node is inside an array" in found["a/b"]
    assert "periods only" in found["x/.."]


def test_problems_of_a_format_are_told(tmp_path, monkeypatch, slabs):
    told = [
        Problem(kind="metadata", message="too old", node="a"),
        Problem(kind="metadata", message="too odd", node="c", severity="fatal"),
        Problem(kind="metadata", message="curious", severity="note", node="b"),
        Problem(kind="metadata", message="half of it is missing", severity="warning"),
    ]
    monkeypatch.setattr(Slabs, "read", gives(*told, Array(**array("b"))))
    slab(tmp_path / "old/b")
    plan = zarrlift.plan(tmp_path / "old", tmp_path / "new")
    assert {problem.message for problem in plan.all_problems()} == {problem.message for problem in told}
    assert [node.path for node in plan.refusals] == ["a", "c"]


# ----- links and limits


@pytest.mark.parametrize("follow", [False, True])
def test_a_link_out_of_the_archive_is_followed_only_on_request(follow, tmp_path, slabs):
    slab(tmp_path / "there")
    old = slab(tmp_path / "old", "group")
    (old / "a").symlink_to(tmp_path / "there")
    archive = zarrlift.inspect(old, follow_links=follow)
    (node,) = [node for node in archive.nodes if node.path == "a"]
    assert node.refused != follow
    (old / "secret").symlink_to(tmp_path / "there" / DOCUMENT)

    class Peeks(Slabs):
        def read(self, files):
            assert ("a/" in files.names()) == follow
            files.read("secret")
            yield Group(path="")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Slabs, "read", Peeks.read)
        if follow:
            assert zarrlift.inspect(old, follow_links=True).nodes
        else:
            with pytest.raises(ValueError, match="a link points outside the archive"):
                zarrlift.inspect(old)


def test_a_document_beyond_the_limit_is_not_read(tmp_path, slabs):
    old = slab(tmp_path / "old", "group")
    slab(old / "a", attributes={"text": "x" * 5000})
    found = zarrlift.plan(old, tmp_path / "new", max_document_size=1000).refusals
    assert [node.path for node in found] == ["a"]


def test_metadata_errors_are_those_of_a_node(tmp_path, monkeypatch, slabs):
    def node(self, directory):
        raise MetadataError("scale is missing", expected="a number")

    monkeypatch.setattr(Slabs, "node", node)
    assert refused(slab(tmp_path / "old")) == {
        "": f"/, key '{DOCUMENT}': scale is missing; expected a number"
    }
