"""Names and layers: entry points and JSON."""

from __future__ import annotations

import sys

import pytest
from zarr.storage import MemoryStore

from zarrstack import (
    Log,
    Rekey,
    Retry,
    StorageTransformer,
    create_array,
    open_array,
    register,
    stack,
)
from zarrstack.base import plugins, registry
from zarrstack.base.stack import layers_from_json, stack_to_json
from zarrstack.core.errors import UsageError


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Makes a package with one entry point visible, as an installer would."""

    def install(name, module, text, package="thirdparty"):
        folder = tmp_path / f"{package}-1.2.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
        (folder / "entry_points.txt").write_text(f"[zarrstack.transformers]\n{name} = {module}\n")
        (tmp_path / f"{package}.py").write_text(text)

    monkeypatch.syspath_prepend(tmp_path)
    yield install
    registry.find.cache_clear()
    sys.modules.pop("thirdparty", None)


PLAIN = """
from zarrstack import StorageTransformer
class Plain(StorageTransformer):
    'Changes nothing.'
    name = "plain"
"""


def test_another_package_registers_a_layer(installed):
    installed("plain", "thirdparty:Plain", PLAIN)
    assert registry.find("plain").__name__ == "Plain"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("plain", "1/0", "ZeroDivisionError"),
        ("plain", "", "AttributeError"),
        ("plain", "Plain = 3", "not a storage transformer"),
        ("other", PLAIN, "has another name"),
        ("log", PLAIN, "more than one"),
    ],
    ids=["broken", "empty", "no layer", "name", "taken"],
)
def test_a_bad_registration_says_what_is_wrong_and_hides_no_other(installed, name, text, words):
    installed(name, "thirdparty:Plain", text)
    registry.find.cache_clear()
    with pytest.raises(UsageError, match=words):
        registry.find(name)
    assert registry.find("retry") is Retry


def test_an_unknown_name_is_an_error_that_names_it_and_the_known_ones():
    with pytest.raises(UsageError, match=r"'nowhere'.*cache, log"):
        registry.find("nowhere")


def test_a_layer_that_is_not_registered_is_refused_and_one_that_is_can_be_named(monkeypatch):
    class Quota(StorageTransformer):
        name, in_metadata = "quota", True

    monkeypatch.setattr(registry, "_registered", {})
    array = {"name": "a", "shape": (4,), "chunks": (2,), "dtype": "i4"}
    store = MemoryStore()
    with pytest.raises(UsageError, match=r"'quota' is not registered.*zarrstack\.register\(.*Quota\)"):
        create_array(store, **array, storage_transformers=[Quota()])
    assert store._store_dict == {}
    assert register(Quota) is Quota
    assert register(Quota) is Quota
    create_array(store, **array, storage_transformers=[Quota()])[:] = 7
    assert open_array(store, path="a")[:].tolist() == [7] * 4
    assert layers_from_json(["quota"])[0].name == "quota"


@pytest.mark.parametrize("name", ["cache", "quota"])
def test_two_layers_of_one_name_are_not_registered(name, monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    if name == "quota":
        register(type("First", (StorageTransformer,), {"name": name}))
    with pytest.raises(UsageError, match=f"another storage transformer is called '{name}'"):
        register(type("Second", (StorageTransformer,), {"name": name}))
    registry.find.cache_clear()


def test_a_stack_keeps_its_order_as_json():
    layers = [Retry(attempts=3), Log(label="x"), Rekey(rules=[])]
    entries = stack_to_json(stack(MemoryStore(), *layers))
    assert [entry["name"] for entry in entries] == ["zarrstack.retry", "zarrstack.log", "zarrstack.rekey"]
    bottom = MemoryStore()
    again = stack(bottom, *layers_from_json(entries))
    assert again == stack(bottom, Retry(attempts=3), Log(label="x"), Rekey(rules=[]))


def test_a_package_installed_twice_registers_a_layer_once(installed):
    for package in ("thirdparty", "thirdparty_editable"):
        installed("plain", "thirdparty:Plain", PLAIN, package)
    assert [point.name for point in plugins.registered(registry.GROUP)].count("plain") == 1
