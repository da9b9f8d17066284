"""Where a result comes from, as its root says: an attribute, and a file that other programs read."""

from __future__ import annotations

import json
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import zarr
from rocrate.rocrate import ROCrate
from tests.support.job_archives import tree, write_archive

import zarrlift
from zarrlift.errors import Interrupted, JobError
from zarrlift.transfer.events import Event, Planned, TaskDone
from zarrstack.core.errors import UsageError

CRATE = "ro-crate-metadata.json"


def attribute(place: Path) -> dict[str, Any]:
    return json.loads((place / "zarr.json").read_bytes())["attributes"]["zarrlift"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another time for each job that is created."""
    numbers = count(1)
    monkeypatch.setattr("zarrlift.jobs.provenance.time.strftime", lambda *_: f"2026-01-{next(numbers):02}")


@pytest.mark.slow(one_in=3)
@pytest.mark.filterwarnings("ignore:Object at ro-crate-metadata.json")  # zarr-python lists the root
@pytest.mark.parametrize("consolidate", [True, False])
def test_a_result_says_where_it_comes_from(consolidate: bool, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    recipe = zarrlift.Recipe(consolidate=consolidate)
    asked: Any = {"recipe": recipe, "provenance": True, "ro_crate": True}
    assert zarrlift.migrate(source, out, **asked).ok
    said = attribute(out)
    assert said["version"] == zarrlift.__version__
    assert said["time"].endswith("Z")
    assert said["source"] == {"url": str(source), "format": "zarr2"}
    assert said["options"]["in_place"] is False
    root = zarr.open_group(out, mode="r")
    assert root.attrs["zarrlift"] == said
    assert all("zarrlift" not in node.attrs for _, node in root.members(max_depth=None))
    assert zarrlift.verify(out, full=True).ok, "the job knows it"
    job = tmp_path / "out.zarr.zarrlift.db"
    job.rename(tmp_path / "job")
    assert zarrlift.verify(source, out, recipe=recipe).ok, "it is known by its form"
    (tmp_path / "job").rename(job)
    assert zarrlift.migrate(source, out, **asked).state == "nothing to do"
    with pytest.raises(JobError, match="with other options"):
        zarrlift.migrate(source, out, recipe=recipe)
    undone = zarrlift.undo(out)
    assert undone.ok
    assert not undone.problems
    assert not out.exists()


def test_nothing_is_said_unless_it_is_requested(source: Path, tmp_path: Path) -> None:
    assert zarrlift.migrate(source, tmp_path / "out.zarr").ok
    document = json.loads((tmp_path / "out.zarr" / "zarr.json").read_bytes())
    assert "zarrlift" not in document["attributes"]
    assert not (tmp_path / "out.zarr" / CRATE).exists()


def interrupts(event: Event) -> None:
    if isinstance(event, TaskDone):
        raise KeyboardInterrupt


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("in_place", [False, True])
def test_a_resumed_job_writes_the_same(in_place: bool, tmp_path: Path) -> None:
    source = write_archive(tmp_path / "source.zarr")
    before = tree(source)
    place = source if in_place else tmp_path / "out.zarr"
    given: Any = {"in_place": True} if in_place else {"destination": place}
    document = source / "h" / "rewrite" / ".zarray"
    kept = document.read_bytes()
    document.write_bytes(b"{")
    stopped = nullcontext() if in_place else pytest.raises(Interrupted)  # in place nothing is moved
    with stopped:
        zarrlift.migrate(source, **given, provenance=True, ro_crate=True, progress=interrupts)
    document.write_bytes(kept)
    assert zarrlift.resume(place).ok
    assert attribute(place)["time"] == "2026-01-01"
    assert json.loads((place / CRATE).read_bytes())["@graph"][1]["datePublished"] == "2026-01-01"
    if in_place:
        assert zarrlift.undo(place).ok
        assert tree(source) == before
        return
    other = tmp_path / "other.zarr"
    assert zarrlift.migrate(source, other, provenance=True).ok
    found, expected = tree(place), tree(other)
    del found[CRATE]
    changed = found.pop("zarr.json").replace(b"2026-01-01", b"2026-01-02")
    assert changed == expected.pop("zarr.json")
    assert found == expected


def test_in_place(tmp_path: Path) -> None:
    source = tmp_path / "source.zarr"
    group = zarr.open_group(source, mode="w", zarr_format=2)
    group.attrs["title"] = "kept"
    group.create_array("a", shape=(4,), dtype="i4", compressors=None)[:] = 1
    before = tree(source)
    assert zarrlift.migrate(source, in_place=True, provenance=True, ro_crate=True).ok
    assert attribute(source)["options"]["in_place"] is True
    assert (source / CRATE).exists()
    assert zarrlift.verify(source).ok
    assert zarrlift.finish(source).state == "finished"
    assert zarr.open_group(source, mode="r").attrs["title"] == "kept"
    assert zarrlift.undo(source).ok
    assert tree(source) == before
    (source / CRATE).write_text("{}")
    (tmp_path / "source.zarr.zarrlift.db").unlink()
    with pytest.raises(UsageError, match=CRATE):
        zarrlift.migrate(source, in_place=True, ro_crate=True)


def test_an_array_at_the_root(tmp_path: Path) -> None:
    source, out = tmp_path / "source.zarr", tmp_path / "out.zarr"
    zarr.create_array(source, shape=(4,), dtype="i4", zarr_format=2)[:] = 1
    assert zarrlift.migrate(source, out, provenance=True, ro_crate=True).ok
    assert zarr.open_array(out, mode="r").attrs["zarrlift"]["source"]["format"] == "zarr2"
    assert zarrlift.verify(out).ok
    assert zarrlift.undo(out).ok
    assert not out.exists()


@pytest.mark.usefixtures("clock")
def test_a_result_that_is_migrated_again_keeps_what_it_said(source: Path, tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("1.zarr", "2.zarr", "3.zarr"))
    assert zarrlift.migrate(source, first, provenance=True).ok
    assert zarrlift.migrate(first, second, provenance=True).ok
    assert attribute(second)["previous"] == attribute(first)
    assert zarrlift.verify(second).ok
    assert zarrlift.verify(first, second, job=None).ok
    assert zarrlift.migrate(second, third).ok
    assert attribute(third) == attribute(second), "an attribute as any other"
    assert zarrlift.verify(third).ok


@pytest.mark.slow(one_in=2)
@pytest.mark.parametrize("change", [{"time": "2020"}, {"more": 1}, {"previous": {}}])
def test_verify_finds_what_the_job_did_not_write(
    change: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out.zarr"
    assert zarrlift.migrate(source, out, provenance=True).ok
    document = json.loads((out / "zarr.json").read_bytes())
    document["attributes"]["zarrlift"].update(change)
    (out / "zarr.json").write_text(json.dumps(document))
    (problem,) = zarrlift.verify(out).problems
    assert "attribute 'zarrlift'" in problem.message
    plain = tmp_path / "plain.zarr"
    assert zarrlift.migrate(source, plain).ok
    document["consolidated_metadata"] = json.loads((plain / "zarr.json").read_bytes())[
        "consolidated_metadata"
    ]
    (plain / "zarr.json").write_text(json.dumps(document))
    assert not zarrlift.verify(plain).ok, "its job has written none"


def test_undo_keeps_a_file_that_was_changed(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.zarr"
    assert zarrlift.migrate(source, out, ro_crate=True).ok
    crate = json.loads((out / CRATE).read_bytes())
    crate["@graph"][1]["license"] = {"@id": "https://creativecommons.org/licenses/by/4.0/"}
    (out / CRATE).write_text(json.dumps(crate))
    undone = zarrlift.undo(out)
    assert [problem.key for problem in undone.problems if problem.severity == "refusal"] == [CRATE]
    assert set(tree(out)) == {CRATE}


@pytest.mark.parametrize("name", ["source.zarr", "a #1?% ü 'x'.zarr"])
def test_other_programs_read_the_crate(name: str, tmp_path: Path) -> None:
    source = write_archive(tmp_path / "plain.zarr").rename(tmp_path / name)
    out = tmp_path / "out.zarr"
    assert zarrlift.migrate(source, out, ro_crate=True).ok
    crate = ROCrate(out)
    root = crate.root_dataset
    assert root["name"] == "out.zarr"
    assert root["license"]["name"] == "Not stated"
    assert root["isBasedOn"]["name"] == str(source)
    assert [part.id for part in root["hasPart"]] == ["zarr.json"]
    (action,) = root["mentions"]
    assert action["instrument"]["softwareVersion"] == zarrlift.__version__
    assert crate.metadata["conformsTo"] == "https://w3id.org/ro/crate/1.1"
    # Rules of RO-Crate 1.1: a flat graph, each entity once, each reference to an entity of it or to a URI.
    data = json.loads((out / CRATE).read_bytes())
    assert data["@context"] == "https://w3id.org/ro/crate/1.1/context"
    entities = {entity["@id"]: entity for entity in data["@graph"]}
    assert len(entities) == len(data["@graph"])
    assert {"name", "description", "datePublished", "license"} <= entities["./"].keys()
    for entity in entities.values():
        assert urlsplit(entity["@id"]).geturl() == entity["@id"]
        assert " " not in entity["@id"]
        for value in entity.values():
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, dict):
                    assert set(item) == {"@id"}, "flat"
                    assert item["@id"] in entities or item["@id"] == data["@graph"][0]["conformsTo"]["@id"]


def test_a_file_of_others_in_place_is_not_overwritten(tmp_path: Path) -> None:
    """It appears after the job was created."""
    source = tmp_path / "source.zarr"
    zarr.open_group(source, mode="w", zarr_format=2).create_array(
        "a", shape=(4,), chunks=(1,), dtype="i4", compressors=None
    )[:] = 1

    def writes(event: Event) -> None:
        if isinstance(event, Planned):
            (source / CRATE).write_text("mine")

    outcome = zarrlift.migrate(source, in_place=True, ro_crate=True, progress=writes)
    assert not outcome.ok
    assert CRATE in str(outcome.problems)
    assert (source / CRATE).read_text() == "mine"
