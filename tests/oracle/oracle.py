"""Records what every command does with every fixture, and compares it with what another installation does.

    python -m tests.oracle.oracle record BASE/bin/python baseline.jsonl
    python -m tests.oracle.oracle compare baseline.jsonl NEW/bin/python

`record` runs `lives.py` in one process of an installation, and keeps its answers: exit codes, both streams,
`--json`, and the tree after each command that may write. `compare` runs it again with another one, and lists
each difference; its exit code is 1 if there is any that `words.toml` does not expect.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.unpacking import FIXTURES, unpacked

HERE = Path(__file__).parent
LENGTH = 80
"""Characters of the path of the folder in which commands run: where lines are broken depends on it."""
COPY = (
    "inspect SRC",
    "inspect SRC --json",
    "migrate SRC DST --dry-run",
    "migrate SRC DST --dry-run --json",
    "migrate SRC DST",
    "status DST",
    "status DST --json",
    "verify SRC DST",
    "verify SRC DST --json",
    "undo DST --yes --json",
    "migrate SRC DST --json",
    "finish DST --yes --json",
    "undo DST --yes",
    "migrate SRC DST",
    "verify SRC DST",
    "finish DST --yes",
)
IN_PLACE = (
    "migrate SRC --in-place --dry-run",
    "migrate SRC --in-place --dry-run --json",
    "migrate SRC --in-place --json",
    "verify SRC",
    "finish SRC --yes --json",
    "status SRC",
    "undo SRC --yes",
    "migrate SRC --in-place",
    "verify SRC --json",
    "finish SRC --yes",
    "status SRC --json",
    "undo SRC --yes --json",
)
LIVES: Mapping[str, Sequence[str]] = {"copy": COPY, "in place": IN_PLACE}
WRITING = frozenset({"migrate", "finish", "undo"})
"""Commands after which the tree is recorded, unless they are dry runs."""

CONTAINERS: Mapping[str, Sequence[str]] = {
    "zarr_v2/zarr-2.18-optional/optional": (
        *("codecs.zarr", "zero_fill.zarr", "databases/dumb.dir", "databases/file.lmdb", "databases/gdbm"),
        *("databases/ndbm.db", "databases/store.lmdb", "databases/store.sqlite"),
    ),
    "zarr_v2/zarr-2.18-tiff/tiff": ("codecs.zarr", "sequence/references.json"),
    "references/virtualizarr-2.5.1/references": (
        *("combined.json", "combined.parquet", "of-zarr.json", "old.zarr", "single.json", "version-0.json"),
        *("virtual.json", "virtual.parquet"),
    ),
}
"""Fixtures that are folders of several archives."""

MASKS = (
    # Times and speeds; a line that has one may be broken elsewhere (`_unbroken`).
    (re.compile(r"\b\d+(?:\.\d+)? (?:us|ms|s|min|h)\b(?: \([^)]*/s\))?"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z| ?[+-]\d\d:?\d\d)?"), "DATE"),
    (re.compile(r"\b[0-9a-f]{32}\b|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"[\d.,]+ [kMGT]?i?B (?=free)"), "SIZE "),
)
MASKED_MEMBERS = frozenset({"seconds", "free_bytes", "began", "process", "created", "updated"})
"""Members of JSON whose values vary."""


@dataclass(frozen=True, slots=True)
class Words:
    """What `words.toml` says."""

    commands: tuple[tuple[str, str], ...]
    """Starts of command lines, as recorded and as they are now."""
    text: tuple[tuple[str, str], ...]
    """Words of the output, as recorded and as they are now."""
    expected: tuple[tuple[re.Pattern[str], str], ...]
    """Differences that are meant (a pattern of their line), and why."""


def words(file: Path = HERE / "words.toml") -> Words:
    """The table of renamed words."""
    table = tomllib.loads(file.read_text(encoding="utf-8"))
    return Words(
        commands=tuple((row["old"], row["new"]) for row in table.get("command", [])),
        text=tuple((row["old"], row["new"]) for row in table.get("text", [])),
        expected=tuple((re.compile(row["pattern"]), row["why"]) for row in table.get("expected", [])),
    )


def archives() -> list[dict[str, str]]:
    """Every fixture and damaged archive: its name, its folder and where in the folder it is."""
    found = []
    for line in (FIXTURES / "MANIFEST.sha256").read_text().splitlines():
        name = line.split(maxsplit=1)[1]
        if ".expected." in name or name.endswith("cases.json"):
            continue
        found.extend(
            {"name": f"{name}/{inside}".rstrip("/"), "folder": name, "inside": inside}
            for inside in CONTAINERS.get(name, [""])
        )
    return found


def _writes(line: str) -> bool:
    return line.split(maxsplit=1)[0] in WRITING and "--dry-run" not in line


def translated(line: str, table: Words) -> list[str]:
    """A command line as an installation with the new words wants it."""
    for old, new in table.commands:
        if line == old or line.startswith(f"{old} "):
            line = new + line.removeprefix(old)
            break
    return line.split()


def record(
    python: str | Path, result: Path, chosen: Sequence[Mapping[str, str]], table: Words | None = None
) -> float:
    """Run all commands on archives in one process of an installation; returns the seconds it took."""
    empty = Words((), (), ())
    request = {
        "archives": [{**one, "folder": str(unpacked(one["folder"]))} for one in chosen],
        "lives": {
            life: [{"words": translated(line, table or empty), "tree": _writes(line)} for line in lines]
            for life, lines in LIVES.items()
        },
        "result": str(result),
    }
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        parent = Path(folder).resolve()
        work = parent / "w".ljust(LENGTH - len(str(parent)) - 1, "w")
        work.mkdir()
        file = work.with_name("request.json")
        file.write_text(json.dumps({**request, "work": str(work)}))
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("ZARRLIFT_")}
        environment = {**inherited, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}
        environment.pop("PYTHONPATH", None)
        with work.with_name("printed").open("w") as printed:  # what libraries print beside the streams
            subprocess.run(
                [str(python), str(HERE / "lives.py"), str(file)], check=True, env=environment, stdout=printed
            )
    return time.perf_counter() - started


def records(file: Path) -> dict[str, dict[str, Any]]:
    """Archive -> its record."""
    with file.open(encoding="utf-8") as lines:
        return {one["archive"]: one["lives"] for one in map(json.loads, lines)}


def masked(text: str) -> str:
    """A text without what varies from run to run."""
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return re.sub(r"TIME \([^)]*/s\)", "TIME", _unbroken(text))


def _unbroken(text: str) -> str:
    """Lines with a time in one piece: how long it is decides where they are broken."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and line.startswith("  ") and re.search(r"\bTIME\b", lines[-1] + line):
            lines[-1] = f"{lines[-1]} {line.strip()}"
        else:
            lines.append(line)
    return "\n".join(lines)


def _document(text: str) -> Any:
    try:
        return json.loads(text) if text.startswith("{") else None
    except ValueError:
        return None


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every scalar of a document with its path; varying members are masked."""
    if isinstance(value, dict) and value:
        for name, member in value.items():
            if name in MASKED_MEMBERS:
                yield f"{path}.{name}", "MASKED"
            else:
                yield from _flat(member, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for number, member in enumerate(value):
            yield from _flat(member, f"{path}[{number}]")
    else:
        yield path, masked(value) if isinstance(value, str) else value


def _between(before: Mapping[str, Any], after: Mapping[str, Any], what: str) -> Iterator[str]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "nothing"), after.get(name, "nothing")
        if old != new:
            yield f"{what} {name}: {old!r} -> {new!r}"


def _of_text(before: str, after: str, what: str) -> Iterator[str]:
    """Lines that one text has and the other has not, in order."""
    old, new = masked(before).splitlines(), masked(after).splitlines()
    gone, come = Counter(old) - Counter(new), Counter(new) - Counter(old)
    yield from (f"{what} -{line}" for line in gone)
    yield from (f"{what} +{line}" for line in come)
    if not gone and not come and old != new:
        yield f"{what}: the lines are in another order"


def of_answers(before: Mapping[str, Any], after: Mapping[str, Any], table: Words) -> Iterator[str]:
    """The differences of one command's answers, one line each."""
    if before["code"] != after["code"]:
        yield f"exit code: {before['code']} -> {after['code']}"
    for stream in ("out", "err"):
        text = before[stream]
        for old, new in table.text:
            text = text.replace(old, new)
        if text == after[stream]:
            continue
        old_document, new_document = _document(text), _document(after[stream])
        if old_document is not None and new_document is not None:
            yield from _between(dict(_flat(old_document)), dict(_flat(new_document)), "json")
        else:
            yield from _of_text(text, after[stream], stream)
    yield from _between(before.get("tree", {}), after.get("tree", {}), "tree")


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], table: Words
) -> Iterator[tuple[str, str, str]]:
    """Archive, command and difference; both are results of `records`."""
    for name, lives in before.items():
        if name not in after:
            yield name, "", "is not in the other record"
            continue
        for life, answers in lives.items():
            for line, old, new in zip(LIVES[life], answers, after[name][life], strict=True):
                for difference in of_answers(old, new, table):
                    yield name, f"{life}: {line}", difference


def compare(before: Path, after: Path, table: Words, most: int = 5) -> int:
    """Print each kind of difference with the commands that show it; returns how many are not expected."""
    kinds: dict[str, list[str]] = defaultdict(list)
    expected = Counter[str]()
    for name, line, difference in differences(records(before), records(after), table):
        whole = f"{name}: {line}: {difference}"
        why = next((why for pattern, why in table.expected if pattern.search(whole)), None)
        if why is None:
            kinds[difference].append(f"{name}: {line}")
        else:
            expected[why] += 1
    for difference, places in kinds.items():
        print(difference)
        for place in places[:most]:
            print(f"    {place}")
        if len(places) > most:
            print(f"    and {len(places) - most} more")
    for why, count in expected.items():
        print(f"expected, {count} times: {why}")
    unexpected = sum(map(len, kinds.values()))
    print(f"{unexpected} differences, {sum(expected.values())} expected")
    return unexpected


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="archives whose name matches this pattern")
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("record")
    first.add_argument("python", help="the Python of an environment with zarrlift installed")
    first.add_argument("result", type=Path)
    second = commands.add_parser("compare")
    second.add_argument("baseline", type=Path)
    second.add_argument("other", help="the Python of another environment, or its record")
    second.add_argument("--most", type=int, default=5, help="places shown of each difference")
    given = parser.parse_args(arguments)
    chosen = [one for one in archives() if re.search(given.only, one["name"])]
    if given.command == "record":
        seconds = record(given.python, given.result, chosen)
        print(f"{len(chosen)} archives, {_commands(chosen)} commands, {seconds:.0f} s")
        return 0
    table = words()
    other = Path(given.other)
    if other.suffix != ".jsonl":
        baseline = records(given.baseline)
        chosen = [one for one in chosen if one["name"] in baseline]
        other = given.baseline.with_suffix(".other.jsonl")
        seconds = record(given.other, other, chosen, table)
        print(f"{len(chosen)} archives, {_commands(chosen)} commands, {seconds:.0f} s")
    return 1 if compare(given.baseline, other, table, given.most) else 0


def _commands(chosen: Sequence[object]) -> int:
    return len(chosen) * sum(map(len, LIVES.values()))


if __name__ == "__main__":
    sys.exit(main())
