"""What packages registered is found wherever Python finds it, without loading what finds it for nothing."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, DistributionFinder, entry_points

import pytest

from zarrstack.base import plugins

GROUP = "zarrstack.tests"
LINES = f"[{GROUP}]\nfirst = somewhere:First\n"


def metadata(folder, text=LINES, *, suffix=".dist-info", name="thirdparty"):
    """The metadata of an installed package, as an installer leaves it."""
    place = folder / f"{name}-1.2{suffix}"
    place.mkdir(parents=True)
    (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    if text is not None:
        (place / "entry_points.txt").write_text(text)
    return place


def in_a_folder(folder):
    metadata(folder)
    return folder


def in_an_old_folder(folder):
    metadata(folder, suffix=".egg-info")
    return folder


def in_capitals(folder):
    metadata(folder, suffix=".DIST-INFO")
    return folder


def in_an_egg(folder):
    metadata(folder).rename(folder / "EGG-INFO")
    (folder / "EGG-INFO" / "METADATA").rename(folder / "EGG-INFO" / "PKG-INFO")
    return folder.rename(folder.with_suffix(".egg"))


def in_a_zip(folder):
    packed = folder / "packed.zip"
    with zipfile.ZipFile(packed, "w") as file:
        for path in metadata(folder / "loose").iterdir():
            file.write(path, f"thirdparty-1.2.dist-info/{path.name}")
    return packed


def twice(folder):
    metadata(folder)
    metadata(folder, name="thirdparty_editable")
    return folder


@pytest.mark.parametrize(
    "install",
    [in_a_folder, in_an_old_folder, in_capitals, in_an_egg, in_a_zip, twice],
    ids=lambda f: f.__name__,
)
def test_what_python_finds_is_found_once(install, tmp_path, monkeypatch):
    place = tmp_path / "site"
    place.mkdir()
    monkeypatch.syspath_prepend(install(place))
    assert {(point.name, point.value) for point in entry_points(group=GROUP)} == {
        ("first", "somewhere:First")
    }
    assert [(point.name, point.value) for point in plugins.registered(GROUP)] == [
        ("first", "somewhere:First")
    ]


def test_a_finder_of_somebody_elses_is_asked(tmp_path, monkeypatch):
    class Elsewhere(DistributionFinder):
        def find_spec(self, *_):
            return None

        def find_distributions(self, context=None):
            yield Distribution.at(metadata(tmp_path / "elsewhere"))

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Elsewhere()])
    assert [point.name for point in plugins.registered(GROUP)] == ["first"]


@pytest.mark.parametrize("text", [None, "", "[console_scripts]\nfirst = somewhere:First\n"])
def test_packages_that_register_nothing_of_the_kind_are_passed_over(text, tmp_path, monkeypatch):
    metadata(tmp_path, text)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path), str(tmp_path / "gone"), ""])
    assert plugins.registered(GROUP) == ()


def test_where_nobody_registered_anything_nothing_is_loaded_to_find_that_out():
    code = (
        "import sys; from zarrstack.base import plugins;"
        f"assert plugins.registered({GROUP!r}) == ();"
        "assert 'importlib.metadata' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
