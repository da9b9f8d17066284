"""Consolidated metadata is a flattened model: it equals zarr-python's own."""

from __future__ import annotations

import json
import shutil
import warnings

import pytest
import zarr
from tests.support.fixtures_index import archive

from zarrlift import models
from zarrstack.core.errors import MetadataError, UsageError

NAMES = ("zarr-2.18/people/ocean", "zarr-2.18/people/cells", "zarr-2.18/people/cohort")


def by_zarr(path, number):
    """What zarr-python consolidates."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # v3 has no specification for it, and says so
        zarr.consolidate_metadata(str(path), zarr_format=number)
    return json.loads((path / (".zmetadata" if number == 2 else "zarr.json")).read_text())


@pytest.mark.parametrize("name", ["zarr-2.18/people/ocean", "zarr-2.18/people/cohort"])
def test_of_v2_it_is_what_zarr_2_wrote(name):
    written = json.loads((archive(name).path / ".zmetadata").read_text())
    assert models.consolidated(models.show(archive(name).path).model) == written


@pytest.mark.parametrize("name", NAMES[:2])  # of strings zarr 3 says the fill value 0 as "0"
def test_of_v2_it_is_what_zarr_3_writes(name, tmp_path):
    shutil.copytree(archive(name).path, tmp_path / "a")
    ours = models.consolidated(models.show(tmp_path / "a").model)
    theirs = by_zarr(tmp_path / "a", 2)
    for key, document in theirs["metadata"].items():
        # zarr 3 puts what belongs to v3 into groups below the root, and says the default separator.
        document.pop("consolidated_metadata", None)
        if key.endswith(".zarray"):
            ours["metadata"][key].setdefault("dimension_separator", ".")
    assert ours == theirs


@pytest.mark.parametrize("name", NAMES)
def test_of_v3(name, tmp_path):
    model = models.show(archive(name).path, migrated=True).model
    models.create(model, tmp_path / "a")
    ours = models.consolidated(model)
    theirs = by_zarr(tmp_path / "a", 3)
    theirs_nodes = theirs.pop("consolidated_metadata")
    ours_nodes = ours.pop("consolidated_metadata")
    assert ours == theirs
    assert {**ours_nodes, "metadata": plain(ours_nodes)} == {**theirs_nodes, "metadata": plain(theirs_nodes)}
    assert list(ours_nodes["metadata"]) == sorted(ours_nodes["metadata"], key=lambda path: path.count("/"))


def plain(block):
    """Documents without what zarr-python fills in as it likes: empty lists, and spelt-out defaults."""
    result = {}
    for path, document in block["metadata"].items():
        kept = {key: value for key, value in document.items() if key != "storage_transformers" or value}
        kept["codecs"] = [
            {key: value for key, value in codec.items() if key != "configuration" or value}
            for codec in kept.get("codecs", ())
        ]
        result[path] = kept
    return result


@pytest.mark.parametrize(("number", "name"), [(2, NAMES[0]), (3, NAMES[1])])
def test_a_hierarchy_made_with_it_is_opened_by_it(number, name, tmp_path):
    shown = models.show(archive(name).path, migrated=number == 3)
    models.create(shown, tmp_path / "a", consolidate=True)
    opened = zarr.open_consolidated(str(tmp_path / "a"), zarr_format=number)
    flat = models.flatten(shown.model)
    assert {path for path, _ in opened.members(max_depth=None)} == flat.keys() - {""}
    for path, node in opened.members(max_depth=None):
        assert dict(node.attrs) == flat[path]["attributes"]
    assert models.show(tmp_path / "a").model == shown.model, "what follows from a model is no part of it"


def test_a_root_that_is_an_array_has_none(tmp_path):
    array = models.show(archive(NAMES[0]).path).model["members"]["sst"]
    with pytest.raises(MetadataError, match="root that is a group"):
        models.consolidated(array)
    with pytest.raises(UsageError, match="root that is a group"):
        models.create(array, tmp_path / "a", consolidate=True)
    assert not (tmp_path / "a").exists()
