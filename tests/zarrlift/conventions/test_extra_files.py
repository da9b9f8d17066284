"""Files that are no Zarr go along with their group where a convention says that an application reads them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.support.fixtures_index import archive as fixture
from tests.zarrlift.conventions.trees import Storage, applied, archive

import zarrlift
from zarrlift.recipe.recipe import ArrayRecipe, Recipe
from zarrlift.transfer import extra_files

FILES = {
    "points/spots/points.parquet/part.0.parquet",
    "shapes/circles/shapes.parquet",
    "shapes/outline/shapes.parquet",
}


@pytest.fixture
def source(tmp_path) -> Path:
    """SpatialData, with points and shapes as Parquet."""
    shutil.copytree(fixture("applications/spatialdata").path, tmp_path / "old")
    return tmp_path / "old"


def there(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*.parquet") if path.is_file()}


def strays(problems) -> set[str]:
    return {problem.key for problem in problems if problem.kind == "stray"}


def test_they_are_named_by_the_group_they_lie_in() -> None:
    groups = {
        "points/p": {"encoding-type": "ngff:points"},
        "shapes/s": {"encoding-type": "ngff:shapes"},
        "tables/t": {"encoding-type": "anndata"},
    }
    files = (
        "points/p/points.parquet/part.0.parquet",
        "points/p/.zattrs",
        "shapes/s/x",
        "tables/t/y",
        "shapes/z",
    )
    found = applied(archive(groups), files=files)
    assert found.files == {
        "points/p": ("points/p/points.parquet/part.0.parquet",),
        "shapes/s": ("shapes/s/x",),
    }


def test_points_and_shapes_are_refused_where_files_cannot_be_listed(monkeypatch) -> None:
    """As over HTTP: without their Parquet, the groups would say of elements that are not there."""
    monkeypatch.setattr(Storage, "can_list", False)
    groups = {"points/p": {"encoding-type": "ngff:points"}, "tables/t": {"encoding-type": "anndata"}}
    found = applied(archive(groups))
    assert [problem.severity for problem in found.problems_of("points/p")] == ["refusal"]
    assert (found.files, found.problems_of("tables/t")) == ({}, ())


@pytest.mark.parametrize("piece", [16 << 20, 1000])
def test_a_copy_has_them_byte_for_byte(piece: int, source, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(extra_files, "_PIECE", piece)
    assert FILES & strays(zarrlift.inspect(source).problems) == set()
    outcome = zarrlift.migrate(source, tmp_path / "new")
    assert FILES & strays(outcome.plan.all_problems()) == set()
    assert there(tmp_path / "new") == FILES
    for key in FILES:
        assert (tmp_path / "new" / key).read_bytes() == (source / key).read_bytes()
    assert zarrlift.verify(source, tmp_path / "new").ok


@pytest.mark.parametrize(
    "recipe",
    [Recipe(base=ArrayRecipe(conventions="none")), Recipe(base=ArrayRecipe(conventions="ome"))],
    ids=["none", "ome"],
)
def test_where_nobody_asks_they_stay_behind_with_a_note(recipe, source, tmp_path) -> None:
    outcome = zarrlift.migrate(source, tmp_path / "new", recipe=recipe)
    assert strays(outcome.plan.all_problems()) >= FILES
    assert there(tmp_path / "new") == set()


def test_what_the_recipe_leaves_out_is_left_out(source, tmp_path) -> None:
    zarrlift.migrate(source, tmp_path / "new", recipe=Recipe(exclude=("shapes/outline", "points")))
    assert there(tmp_path / "new") == {"shapes/circles/shapes.parquet"}


def test_in_place_they_lie_where_they_lay(source) -> None:
    zarrlift.migrate(source, in_place=True)
    assert there(source) == FILES
    assert zarrlift.verify(source).ok
    zarrlift.undo(source)
    assert there(source) == FILES


@pytest.mark.parametrize("change", [b"", b"other bytes", None])
def test_verification_finds_a_copy_that_differs(change: bytes | None, source, tmp_path) -> None:
    zarrlift.migrate(source, tmp_path / "new")
    copy = tmp_path / "new" / "shapes" / "circles" / "shapes.parquet"
    if change is None:
        content = bytearray(copy.read_bytes())
        content[100] ^= 1
        copy.write_bytes(content)
    else:
        copy.write_bytes(change)
    problems = zarrlift.verify(source, tmp_path / "new").problems
    assert [(p.kind, p.node, p.key) for p in problems] == [
        ("verify-structure", "shapes/circles", "shapes/circles/shapes.parquet")
    ]
    copy.unlink()
    assert [p.found for p in zarrlift.verify(source, tmp_path / "new").problems] == ["nothing"]


def test_undo_removes_the_copies_and_nothing_that_came_later(source, tmp_path) -> None:
    zarrlift.migrate(source, tmp_path / "new")
    (tmp_path / "new" / "shapes" / "outline" / "mine.parquet").write_bytes(b"mine")
    zarrlift.undo(tmp_path / "new")
    assert there(tmp_path / "new") == {"shapes/outline/mine.parquet"}
    assert there(source) == FILES


def test_a_file_that_cannot_be_read_fails_its_group_and_a_resume_goes_on(
    source, tmp_path, monkeypatch
) -> None:
    from zarrstack.core.errors import StorageError

    def refuse(storage, writer, key):
        if "outline" in key:
            raise StorageError("no such luck", key=key)
        return copy(storage, writer, key)

    copy = extra_files.require_copy
    monkeypatch.setattr("zarrlift.jobs.publisher.require_copy", refuse)
    outcome = zarrlift.migrate(source, tmp_path / "new")
    assert outcome.state == "incomplete"
    assert [(p.node, p.key) for p in outcome.problems if p.severity == "refusal"] == [
        ("shapes/outline", "shapes/outline/shapes.parquet")
    ]
    assert not (tmp_path / "new" / "shapes" / "outline" / "zarr.json").exists()
    monkeypatch.undo()
    assert zarrlift.resume(tmp_path / "new").state == "done"
    assert there(tmp_path / "new") == FILES


def test_a_plan_says_them_in_json(source) -> None:
    made = zarrlift.plan(source)
    listed = {key for group in made.to_json()["groups"] for key in group["files"]}
    assert listed == FILES
    assert type(made).from_json(json.loads(json.dumps(made.to_json()))) == made
