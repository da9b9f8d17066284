"""Errors: they say where, what was found and what to do, in this process and in the next."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zarrlift import errors
from zarrlift.core import problems as problems_of
from zarrlift.errors import KINDS
from zarrstack.core.errors import MetadataError, Problem, ZarrstackError

FIELDS = {"node": "a/b", "key": "a/b/0.0", "found": "3", "expected": "4", "advice": "Look again."}

texts = st.none() | st.text(max_size=5)
problems = st.builds(
    Problem,
    kind=st.sampled_from(sorted(KINDS)),
    message=st.text(max_size=5),
    severity=st.sampled_from(["note", "warning", "refusal"]),
    node=texts, key=texts, found=texts, expected=texts, advice=texts,
)  # fmt: skip


def fail(name):
    raise getattr(errors, name)("it broke", **FIELDS)


def test_kinds_are_never_renamed():
    assert {kind: error.__name__ for kind, error in KINDS.items()} == {
        "error": "ZarrstackError",
        "metadata": "MetadataError",
        "unsupported": "UnsupportedError",
        "chunk": "ChunkError",
        "cast": "CastError",
        "storage": "StorageError",
        "source-changed": "SourceChangedError",
        "job": "JobError",
        "worker": "WorkerError",
        "verification": "VerificationError",
        "usage": "UsageError",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_explains_itself(kind):
    assert KINDS[kind].__doc__
    assert KINDS[kind]("it broke").problem.kind == kind
    with pytest.raises(TypeError, match="fund"):
        KINDS[kind]("it broke", fund="3")
    assert issubclass(KINDS[kind], ZarrstackError)


@pytest.mark.parametrize("severity", ["note", "warning", "refusal"])
def test_a_problem_of_each_severity_has_its_name(severity):
    make = getattr(problems_of, severity)
    assert make("metadata", "odd", **FIELDS) == Problem(
        kind="metadata", message="odd", severity=severity, **FIELDS
    )
    with pytest.raises(TypeError, match="fund"):
        make("metadata", "odd", fund="3")


@pytest.mark.parametrize("error", KINDS.values(), ids=KINDS)
def test_an_error_survives_pickling_and_copying(error):
    original = error("it broke", **FIELDS)
    for twin in (pickle.loads(pickle.dumps(original)), copy.copy(original)):
        assert type(twin) is error
        assert twin.problem == original.problem
        assert str(twin) == str(original)
        assert twin.args == original.args


@given(problems)
def test_a_problem_survives_json(problem):
    assert Problem.from_json(json.loads(json.dumps(problem.to_json()))) == problem


@given(problems, texts, texts)
def test_a_place_is_filled_in_once(problem, node, key):
    placed = problem.at(node=node, key=key)
    assert placed.node == (node if problem.node is None else problem.node)
    assert placed.key == (key if problem.key is None else problem.key)
    assert placed.at(node="other", key="other").at(node="third", key="third") == placed.at(
        node="other", key="other"
    )
    assert placed.message == problem.message


def test_an_error_is_placed_where_it_is():
    error = MetadataError("it broke", key="a/.zarray")
    assert error.at(node="a", key="b") is error
    assert (error.problem.node, error.problem.key) == ("a", "a/.zarray")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "it broke"),
        ({"node": ""}, "/: it broke"),
        ({"key": "a/0"}, "key 'a/0': it broke"),
        (FIELDS, "/a/b, key 'a/b/0.0': it broke; found 3; expected 4. Look again."),
    ],
    ids=["bare", "root", "key", "all"],
)
def test_its_text_says_where_and_what(fields, text):
    assert str(MetadataError("it broke", **fields)) == text


@pytest.mark.parametrize(
    ("kind", "builtin"),
    {"metadata": ValueError, "chunk": ValueError, "storage": RuntimeError, "job": RuntimeError}.items(),
)
def test_old_handlers_still_catch_them(kind, builtin):
    with pytest.raises(builtin):
        fail(KINDS[kind].__name__)
