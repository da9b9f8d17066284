"""How the source is to be read goes with the job: resume and verify read as migrate did."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import zarrlift
from zarrlift.errors import JobError
from zarrlift.formats import table
from zarrlift.formats.zarr_v2 import nodes
from zarrlift.recipe.options import Reading
from zarrstack.core.errors import UsageError


@pytest.fixture
def asked(monkeypatch):
    """What each reading of the source was asked for: a reader of Zarr v2 that takes every option."""
    calls = []
    real = nodes.describer

    def describer(tree):
        names = ("follow_links", "axes", "allow_fallback")
        calls.append({name: getattr(tree.reading, name) for name in names})
        return real(tree)

    monkeypatch.setattr(nodes, "describer", describer)
    row = replace(table.FORMATS["zarr2"], options=("axes", "allow_fallback"))
    monkeypatch.setitem(table.FORMATS, "zarr2", row)
    return calls


def test_a_job_remembers_how_its_source_was_read(source, tmp_path, asked):
    destination = tmp_path / "out.zarr"
    options = {"follow_links": True, "axes": "kept", "allow_fallback": True}
    (source / "g/recode/0").write_bytes(b"broken")
    assert not zarrlift.migrate(source, destination, **options).ok
    assert not zarrlift.resume(destination).ok
    assert not zarrlift.verify(source, destination).ok
    assert asked == [options] * 3


def test_what_is_said_to_verify_comes_before_what_the_job_says(source, tmp_path, asked):
    destination = tmp_path / "out.zarr"
    zarrlift.migrate(source, destination, axes="kept")
    zarrlift.verify(source, destination, axes="reversed")
    assert [call["axes"] for call in asked] == ["kept", "reversed"]


@pytest.mark.parametrize(("in_place", "axes"), [(False, "reversed"), (True, "kept")])
def test_axes_are_reversed_in_copies_and_kept_in_place_unless_it_is_said(
    source, tmp_path, asked, in_place, axes
):
    destination = source if in_place else tmp_path / "out.zarr"
    zarrlift.migrate(source, None if in_place else destination, in_place=in_place)
    (tmp_path / f"{destination.name}.zarrlift.db").unlink()
    zarrlift.verify(source, destination)
    assert [call["axes"] for call in asked] == [axes, axes], "verify finds it out without a job too"


def test_other_axes_are_another_job(source, tmp_path, asked):
    destination = tmp_path / "out.zarr"
    zarrlift.migrate(source, destination, axes="kept")
    assert zarrlift.migrate(source, destination, axes="kept").state == "nothing to do"
    with pytest.raises(JobError, match="belongs to a different job"):
        zarrlift.migrate(source, destination)


def test_a_job_remembers_how_large_documents_may_be(source, tmp_path):
    (source / "g/.zattrs").write_text(json.dumps({"text": "a" * 1000}))
    destination = tmp_path / "out.zarr"
    outcome = zarrlift.migrate(source, destination, max_document_size=1000)
    (told,) = [problem for problem in outcome.problems if problem.severity == "refusal"]
    assert (told.node, told.key, told.expected) == ("g", "g/.zattrs", "at most 1000 bytes")
    assert not zarrlift.verify(source, destination).ok, "the job says what was refused"
    (tmp_path / "out.zarr.zarrlift.db").unlink()
    assert zarrlift.migrate(source, tmp_path / "whole.zarr", max_document_size=2000).ok


def test_axes_mean_nothing_to_a_format_without_such_a_choice(source, tmp_path):
    destination = tmp_path / "out.zarr"
    assert zarrlift.migrate(source, destination, axes="kept", allow_fallback=True).ok
    assert zarrlift.migrate(source, destination, axes="reversed").state == "nothing to do"
    assert zarrlift.verify(source, destination, axes="reversed", full=True).ok


def test_no_other_orders_are_known(source):
    with pytest.raises(UsageError, match="unknown order of axes; found 'zyx'; expected reversed, kept"):
        zarrlift.inspect(source, axes="zyx")


def test_options_survive_the_job_file_and_older_files_have_the_defaults():
    options = Reading(follow_links=True, axes="kept", allow_fallback=True, max_document_size=1)
    assert Reading.from_json({**options.to_json(), "format": "n5"}) == options
    assert Reading.from_json({"follow_links": True}) == Reading(follow_links=True)
