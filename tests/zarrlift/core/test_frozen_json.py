"""JSON values of a layout cannot be changed, and are otherwise like any other JSON."""

from __future__ import annotations

import copy
import json
import pickle

import pytest

from zarrlift.core.data_types.v3 import DataType
from zarrstack.core.codec_spec import CodecSpec
from zarrstack.core.frozen_json import frozen

VALUE = {"a": [1, {"b": 2.5}], "c": {"d": [None, True]}}


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(a=1),
        lambda value: value.__setitem__("a", 1),
        lambda value: value.__delitem__("a"),
        lambda value: value.pop("a"),
        lambda value: value.setdefault("z", 1),
        lambda value: value["a"].append(1),
        lambda value: value["a"].__iadd__([1]),
        lambda value: value["a"][1].clear(),
        lambda value: value["c"]["d"].sort(),
    ],
)
def test_no_level_of_a_frozen_value_can_be_changed(change):
    value = frozen(VALUE)
    with pytest.raises(TypeError, match="cannot be changed"):
        change(value)
    assert value == VALUE


@pytest.mark.parametrize("remake", [copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_equal_and_frozen(remake):
    value = remake(frozen(VALUE))
    assert value == VALUE
    assert json.dumps(value) == json.dumps(VALUE)
    with pytest.raises(TypeError):
        value["a"].append(1)


def test_configurations_of_codecs_and_data_types_are_frozen():
    order = [1, 0]
    spec = CodecSpec("transpose", {"order": order})
    order.reverse()
    assert spec == CodecSpec("transpose", {"order": [1, 0]})
    with pytest.raises(TypeError):
        spec.configuration["order"].reverse()
    spec.to_json()["configuration"]["order"].reverse()  # as JSON for others, it is a copy
    assert spec == CodecSpec("transpose", {"order": [1, 0]})
    data_type = DataType.from_json({"name": "fixed_length_utf32", "configuration": {"length_bytes": 8}})
    with pytest.raises(TypeError):
        data_type.configuration.update(length_bytes=4)
