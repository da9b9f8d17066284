"""Measure zarrlift beside its peers and the machine's limits.

    python benchmarks/run.py [NAME ...] [--rounds 3] [--directory /dev/shm] [--write] [--small]

NAME is a workload of `workloads.py`, or a table: files, updates, object store, interpreter lock,
codecs, layers, caches, cache, sharding. Without names, everything that can run here is measured, which
needs an idle machine with 8 GB in the directory.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import chart
from contenders import Setting
from harness import Command, Figures, measure
from workloads import WORKLOADS, Workload

HERE = Path(__file__).parent
DOCS = HERE.parent / "docs"
SPEED = DOCS / "explanation" / "speed.md"
FIGURES = SPEED.with_name("speed-figures.txt")
CHART = SPEED.with_name("speed-peers.svg")
END = "<!-- end of figures -->"
PROGRAMS = {
    "z5py": ("python", "-c", "from importlib.metadata import version; print('z5py', version('z5py'))"),
    "zarrs_reencode": ("zarrs_reencode", "--version"),
}
"""Below NAME/bin in the folder of environments (README.md), and what prints its version."""


@dataclass(frozen=True, slots=True)
class Group:
    """A table."""

    page: Path | None = None
    """Where `--write` puts it; other figures are quoted by hand."""
    script: str = ""
    """What measures it within one process; otherwise, it consists of workloads."""
    packages: Sequence[str] = ()
    """Whose versions are quoted beside it."""
    needs: Sequence[str] = ()
    """Modules and programs without which it is left out."""


STORE = ("tensorstore", "obstore", "s3fs", "aiobotocore")
GROUPS = {
    "files": Group(FIGURES, packages=("tensorstore", "zarrs", "dask", "deflate", "isal", *PROGRAMS)),
    "updates": Group(SPEED),
    "object store": Group(SPEED, packages=STORE, needs=("aiohttp", *STORE)),
    "interpreter lock": Group(SPEED, "interpreter_lock.py", needs=("py-spy",)),
    "codecs": Group(
        script="codecs.py",
        packages=(
            *("deflate", "isal", "zlib-ng", "imagecodecs", "cramjam"),
            *("zstandard", "google-crc32c", "crc32c"),
        ),
    ),
    "layers": Group(DOCS / "transformers" / "index.md", "layers.py layers"),
    "caches": Group(DOCS / "transformers" / "index.md", "caches.py", needs=("tensorstore",)),
    "cache": Group(DOCS / "transformers" / "cache.md", "layers.py cache"),
    "sharding": Group(DOCS / "transformers" / "write-back.md", "layers.py sharding"),
}


# Circumstances


def machine(directory: Path) -> str:
    """What is measured on."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("zarrlift", "zarr", "numcodecs", "numpy"))
    python = f"Python {platform.python_version()}, {packages}"
    return f"{platform.machine()}, {os.cpu_count()} cores, data in {directory.parent}, {python}"


def programs(folder: Path) -> dict[str, str]:
    """The Python, or the program, of each peer whose environment exists below a folder."""
    found = {name: folder / name / "bin" / words[0] for name, words in PROGRAMS.items()}
    return {name: str(path) for name, path in found.items() if path.exists()}


def versions(names: Sequence[str], found: Mapping[str, str]) -> Iterator[str]:
    """Of packages beside zarrlift, and of peers with environments of their own."""
    for name in names:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            words = [found[name], *PROGRAMS[name][1:]] if name in found else ["echo", f"no {name}"]
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            yield done.stdout.split("(")[0].strip()


def circumstances(group: Group, setting: Setting, rounds: int) -> list[str]:
    """The first lines of a table, which say on what and when it was measured."""
    packages = ", ".join(versions(group.packages, setting.programs))
    day = f"{rounds} rounds, {time.strftime('%Y-%m-%d')}"
    return [f"{machine(setting.base)},", f"{packages}; {day}" if packages else day]


# Tables


def rows(
    work: Workload, commands: Sequence[Command], figures: Mapping[str, Figures], missing: Sequence[str]
) -> list[str]:
    """One workload: each contender, with how many times as long as the first one it takes."""
    first = figures[commands[0].name].median
    lines, width = [f"{work.name}: {work.what}"], max(26, *(len(command.name) for command in commands))
    for command in commands:
        found = figures[command.name]
        ratio = found.median / first
        times = "" if command is commands[0] else f", {ratio:.{1 if ratio >= 1 else 2}f} x"
        lines.append(f"  {command.name:{width}} {found}{times}   {command.note}".rstrip())
    return [*lines, *(f"  {name}: left out, there is no environment" for name in missing), ""]


def table(works: Sequence[Workload], setting: Setting, rounds: int) -> tuple[list[str], list[chart.Group]]:
    """The rows of all workloads, and a bar for each contender of those that have peers."""
    lines, groups = [], []
    start = Command(name="start", argv=(Path(sys.executable).with_name("zarrlift"), "--version"))
    lines += [f"{'zarrlift --version':28} {measure([start], rounds)['start']}", ""]
    for work in works:
        with work.commands(setting) as commands:
            figures = measure(commands, rounds)
        found = rows(work, commands, figures, work.missing(setting))
        print("\n".join(found), file=sys.stderr, flush=True)
        lines += found
        if any(command.kind != "own" for command in commands):
            bars = [chart.Bar(each.name, figures[each.name].median, each.kind) for each in commands]
            groups.append(chart.Group(work.name, bars))
    return lines, groups


def chosen(names: Sequence[str]) -> dict[str, list[Workload]]:
    """The workloads of each wanted table, in the order of `GROUPS`; SystemExit for an unknown name."""
    known = [*GROUPS, *(work.name for work in WORKLOADS)]
    if unknown := set(names) - set(known):
        raise SystemExit(f"nothing is called {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    wanted = [work for work in WORKLOADS if not names or {work.name, work.group} & set(names)]
    found = {group: [work for work in wanted if work.group == group] for group in GROUPS}
    return {group: works for group, works in found.items() if works or not names or group in names}


def lacks(group: Group) -> list[str]:
    """What a table needs and this machine has not."""
    there = {name: find_spec(name.replace("-", "_")) or shutil.which(name) for name in group.needs}
    return [name for name, found in there.items() if not found]


def write(name: str, text: str, page: Path) -> None:
    """Put a table between its marks on a page; SystemExit where the page has none."""
    start, old = f"<!-- figures: {name} -->", page.read_text(encoding="utf-8")
    before, mark, rest = old.partition(start)
    if not mark or END not in rest:
        raise SystemExit(f"{page} has no place for the figures: a line {start} and a line {END}")
    page.write_text(f"{before}{start}\n\n{text}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    """Write the sources, measure, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3, help="codecs and layers have at least 7")
    parser.add_argument("--directory", default="/dev/shm", help="where the data is stored; best in memory")
    parser.add_argument("--environments", type=Path, default=HERE.parent / ".venv-benchmarks")
    parser.add_argument("--small", action="store_true", help="try small sources once; figures mean nothing")
    parser.add_argument("--write", action="store_true", help="put whole tables, and the chart, into docs/")
    asked = parser.parse_args()
    works = chosen(asked.names)
    parts = [name for name, some in works.items() if some != chosen([name])[name]]
    if asked.write and (asked.small or parts):
        parser.error("--write takes whole tables: neither --small nor a part of them")
    rounds = 0 if asked.small else asked.rounds
    with tempfile.TemporaryDirectory(dir=asked.directory) as folder:
        setting = Setting(Path(folder), programs(asked.environments))
        for name, some in works.items():
            if missing := lacks(GROUPS[name]):
                print(f"{name} is left out: there is no {', '.join(missing)}", file=sys.stderr)
                continue
            text = measured(name, some, setting, rounds, draw=asked.write)
            print(f"\n{name}\n\n{text}", flush=True)
            if asked.write and (page := GROUPS[name].page):
                write(name, text, page)


def measured(name: str, works: Sequence[Workload], setting: Setting, rounds: int, *, draw: bool) -> str:
    """A table as its page shows it; the chart beside the page, too, if it is to `draw` one."""
    group = GROUPS[name]
    about = circumstances(group, setting, rounds)
    if group.script:
        script, *table_name = group.script.split()
        words = (sys.executable, HERE / script, *table_name, setting.base, str(rounds))
        printed = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
        return f"{' '.join(about)}\n\n{printed.strip()}"
    size = "full" if rounds else "small"
    sources = dict.fromkeys(source for work in works for source in work.sources)
    subprocess.run((sys.executable, HERE / "sources.py", setting.base, size, *sources), check=True)
    lines, groups = table(works, setting, rounds)
    for source in sources:
        shutil.rmtree(setting.base / source)
    if draw and name == "files":
        CHART.write_text(chart.draw(groups, circumstances=about), encoding="utf-8")
    return "\n".join(("```text", *about, "", *lines)).rstrip() + "\n```"


if __name__ == "__main__":
    main()
