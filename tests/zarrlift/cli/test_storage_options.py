"""`--storage-options` names the place that each option is for; none goes to another place."""

from __future__ import annotations

from typing import Any

import pytest

from zarrlift.cli import main
from zarrlift.cli.storage_options import ComparedStorage, by_place
from zarrstack.core.errors import UsageError

BOTH = ("src", "dst", "job")


@pytest.mark.parametrize(
    ("texts", "given"),
    [
        (["anon=true"], {"src": {"anon": True}}),
        (["dst:key=k", "dst:secret=s"], {"dst": {"key": "k", "secret": "s"}}),
        (
            ["src:key=a", "dst:key=b", "job:key=c"],
            {"src": {"key": "a"}, "dst": {"key": "b"}, "job": {"key": "c"}},
        ),
        (["endpoint_url=http://h:9"], {"src": {"endpoint_url": "http://h:9"}}),
        (["dst:endpoint_url=http://h:9"], {"dst": {"endpoint_url": "http://h:9"}}),
        (["key=a=b:c"], {"src": {"key": "a=b:c"}}),
        (['dst:{"a": {"b": "c=d"}}'], {"dst": {"a": {"b": "c=d"}}}),
        (['{"dst:key": 1}'], {"src": {"dst:key": 1}}),
        (["other:key=1"], {"src": {"other:key": 1}}),
        (["ref:anon=true"], {"ref": {"anon": True}}),
        (["key=1", '{"key": 2}'], {"src": {"key": 2}}),
        (None, {}),
    ],
)
def test_the_place_stands_at_the_start_of_the_key(texts: list[str] | None, given: dict[str, Any]) -> None:
    assert by_place(texts, BOTH, ("src",)) == given


def test_what_is_for_one_place_goes_to_no_other() -> None:
    given = by_place(["anon=true", "src:key=secret"], BOTH, ("src", "dst"))
    assert given == {"src": {"anon": True, "key": "secret"}, "dst": {"anon": True}}


def test_what_names_a_place_wins() -> None:
    given = by_place(["dst:anon=false", "anon=true"], BOTH, ("src", "dst"))
    assert given == {"src": {"anon": True}, "dst": {"anon": False}}


@pytest.mark.parametrize("text", ["hunter2", "dst:hunter2", "=hunter2", "{hunter2", "dst:[]"])
def test_what_has_no_form_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as told:
        by_place([text], BOTH, ("src",))
    assert "hunter2" not in str(told.value)


def test_a_place_that_a_command_has_not_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "a.zarr", "--storage-options", "dst:anon=true"]) == 2
    assert "this command has no dst:; expected src, ref" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "destination", "places"),
    [
        ("s3://a/b", "s3://c/d", {"storage_options", "dest_storage_options"}),
        ("old.zarr", "s3://c/d", {"dest_storage_options"}),
        ("s3://a/b", "new.zarr", {"storage_options"}),
        ("job.zarrlift.db", None, {"storage_options"}),
    ],
)
def test_a_comparison_gives_them_to_both_urls(source: str, destination: str | None, places: set[str]) -> None:
    storage = ComparedStorage(storage_options=["anon=true"], allow_references=None)
    assert storage.of(source, destination).keys() == places
