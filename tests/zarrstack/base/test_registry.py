"""Names and layers: entry points, JSON, and the text of a command line."""

from __future__ import annotations

import sys

import pytest
from zarr.storage import MemoryStore

from zarrstack import Log, Rekey, Retry, Throttle, stack
from zarrstack.base import registry
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
    [row] = [row for row in registry.registered() if row.name == "plain"]
    assert (row.package, row.summary, row.problem) == ("thirdparty 1.2", "Changes nothing.", None)


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
    rows = {row.name: row for row in registry.registered()}
    assert words in rows[name].problem
    assert rows["retry"].problem is None


def test_an_unknown_name_is_an_error_that_names_it_and_the_known_ones():
    with pytest.raises(UsageError, match=r"'nowhere'.*cache, checksum"):
        registry.find("nowhere")


def test_a_stack_keeps_its_order_as_json():
    layers = [Retry(attempts=3), Log(label="x"), Rekey(rules=[])]
    entries = registry.stack_to_json(stack(MemoryStore(), *layers))
    assert [entry["name"] for entry in entries] == ["retry", "log", "rekey"]
    bottom = MemoryStore()
    again = registry.stack_from_json(bottom, entries)
    assert again == stack(bottom, Retry(attempts=3), Log(label="x"), Rekey(rules=[]))


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("retry", [Retry()]),
        ("retry:5", [Retry(attempts=5)]),
        ("retry:attempts=5:budget=2.5", [Retry(attempts=5, budget=2.5)]),
        ("retry, log:events.jsonl", [Retry(), Log(events="events.jsonl")]),
        ("log:C:/x.jsonl:label=a", [Log(events="C:/x.jsonl", label="a")]),
        ("throttle:50MB/s", [Throttle(bytes_per_second="50MB/s")]),
        ('[{"name": "retry", "configuration": {"attempts": 5}}, "log"]', [Retry(attempts=5), Log()]),
    ],
)
def test_text_says_which_layers(text, layers):
    assert registry.parse_stack(text) == layers


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no name"),
        ("retry,,log", "no name"),
        ("nowhere", "'nowhere'"),
        ("retry:attempt=5", "'attempt'"),
        ("sharding", "chunks_per_shard"),
        ("per-array:5", "takes no value without the name of an option"),
        ("[7]", "not a storage transformer"),
        ("[", "not valid JSON"),
        ('[{"name": "retry", "configuration": 7}]', "not a JSON object"),
    ],
)
def test_text_that_does_not_fit_says_why(text, words):
    with pytest.raises(UsageError, match=words):
        registry.parse_stack(text)
