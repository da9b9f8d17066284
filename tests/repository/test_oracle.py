"""The oracle sees what differs between two installations, and nothing between two runs of one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.oracle import oracle

pytestmark = pytest.mark.slow

NAMES = ("zarr_v1/bad/meta_no_dtype.zarr", "zarr_v1/zarr-1.0/root.zarr")
NO_WORDS = oracle.Words((), (), ())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two records of this installation."""
    folder = tmp_path_factory.mktemp("oracle")
    chosen = [one for one in oracle.archives() if one["name"] in NAMES]
    files = folder / "one.jsonl", folder / "two.jsonl"
    for file in files:
        oracle.record(sys.executable, file, chosen)
    return files


def test_two_runs_do_not_differ(recorded: tuple[Path, Path]) -> None:
    one, two = map(oracle.records, recorded)
    assert set(one) == set(NAMES)
    assert list(oracle.differences(one, two, NO_WORDS)) == []
    lives = one["zarr_v1/zarr-1.0/root.zarr"]
    codes = {life: [answer["code"] for answer in answers] for life, answers in lives.items()}
    assert codes["copy"] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0]
    assert codes["in place"] == [0] * 12
    trees = [answer["tree"] for answer in lives["copy"] if "tree" in answer]
    assert "new.zarr/zarr.json" in trees[0]
    assert "new.zarr/zarr.json" not in trees[-1]


CHANGES = {
    "exit code: 0 -> 1": lambda answer: answer.update(code=1),
    "out -  read by": lambda answer: answer.update(out=answer["out"].replace("read by", "readable by")),
    "err +more": lambda answer: answer.update(err="more\n"),
    "tree new.zarr/zarr.json": lambda answer: answer["tree"].update({"new.zarr/zarr.json": "0"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_kind_of_difference_is_listed(change: str, recorded: tuple[Path, Path]) -> None:
    one, two = map(oracle.records, recorded)
    number = oracle.COPY.index(
        "migrate SRC DST" if change.startswith("tree") else "migrate SRC DST --dry-run"
    )
    CHANGES[change](two["zarr_v1/zarr-1.0/root.zarr"]["copy"][number])
    found = list(oracle.differences(one, two, NO_WORDS))
    assert found
    assert {(name, line) for name, line, _ in found} == {
        ("zarr_v1/zarr-1.0/root.zarr", f"copy: {oracle.COPY[number]}")
    }
    assert any(difference.startswith(change) for _, _, difference in found)


def test_a_member_of_json_that_differs_is_listed_by_its_path() -> None:
    before, after = (
        {"code": 0, "out": json.dumps({"a": {"b": [1, n]}, "seconds": n}), "err": ""} for n in (2, 3)
    )
    assert list(oracle.of_answers(before, after, NO_WORDS)) == ["json .a.b[1]: 2 -> 3"]


def test_renamed_words_are_no_difference(tmp_path: Path) -> None:
    file = tmp_path / "words.toml"
    file.write_text(
        '[[command]]\nold = "plan"\nnew = "migrate --dry-run"\n'
        '[[text]]\nold = "zarrlift plan"\nnew = "zarrlift migrate -n"\n'
        '[[expected]]\npattern = "^a: "\nwhy = "it is retired"\n'
    )
    table = oracle.words(file)
    assert oracle.translated("plan SRC --json", table) == ["migrate", "--dry-run", "SRC", "--json"]
    assert oracle.translated("planned SRC", table) == ["planned", "SRC"]
    before, after = (
        {"code": 2, "out": "", "err": f"Run: zarrlift {word} x"} for word in ("plan", "migrate -n")
    )
    assert list(oracle.of_answers(before, after, table)) == []
    assert table.expected[0][0].search("a: plan: exit code")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("68.0 kB written in 0.18 s (374 kB/s).", "68.0 kB written in 12 s (1.2 MB/s)."),
        ("copied and written in 0.18 s\n  (374 kB/s).\nmore", "copied and written in 0.2 s (1 kB/s).\nmore"),
        ("created   2026-11-25 18:45:44 +0000", "created   2026-12-01 00:00:00 +0000"),
        ("23.3 GB free", "5 GB free"),
    ],
)
def test_what_varies_from_run_to_run_is_masked(one: str, two: str) -> None:
    assert oracle.masked(one) == oracle.masked(two)


def test_the_table_of_words_can_be_read() -> None:
    assert isinstance(oracle.words(), oracle.Words)
