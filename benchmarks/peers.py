"""zarrlift beside every peer and the machine's limits, workload by workload, in one interleaved run.

    python benchmarks/peers.py [--directory /dev/shm] [--rounds 3] [--only shards,...] [--small]
                               [--z5py ENVIRONMENT] [--rechunker ENVIRONMENT]
                               [--zarrs_reencode FOLDER] [--write]

Every contender runs once before anything is timed: what it wrote is compared with the source, and the
memory of all its processes is watched. z5py and rechunker live in virtual environments of their own, and
zarrs_reencode in a folder with `bin` (`everything.py` makes them); without them those rows are left out,
and a line says so. `--small` tries in a minute whether everything runs; its figures mean nothing. With
`--write` the table and the chart go into docs/.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from chart import Bar, Group, Kind
from contenders import WORK
from harness import Command, Figures, look, measure, remover
from main_job import ZARRLIFT, machine
from page import write
from same import same
from sections import SECTIONS, Section, Told, verdict
from workloads import LIMITS, PEERS, WORKLOADS, Environments, Peer, Workload, commands, environments

HERE = Path(__file__).parent


def check(base: Path, work: Workload, found: Environments, *, count: bool) -> dict[str, Figures]:
    """Run each contender once, watch its memory, and compare what it wrote with the source."""
    figures = {}
    for command in commands(base, work, found):
        figures[command.name] = look(command, count=count)
        if command.name in LIMITS:
            continue
        peer = PEERS.get(command.name, Peer(name="zarrlift"))
        same(base / work.source, base / "out" / peer.inside, reader=peer.reader)
        if command.name == "zarrlift" and work.limit == "as many files":
            shutil.copytree(base / "out", base / f"{work.name}.result", dirs_exist_ok=True)
    remover(base / "out", base / "out.zarrlift.db")()
    return figures


def told(work: Workload, figures: Mapping[str, Figures], found: Environments) -> Told:
    """The rows of one workload, and its bars."""
    medians = {name: each.median for name, each in figures.items()}
    lines = [f"{work.name}: {work.source} {' '.join(work.options)}".rstrip()]
    for name, each in figures.items():
        line = f"  {name:26} {each}"
        if name == "zarrlift" and work.promise is not None:
            most = work.promise(medians)
            line += f"   at most {most:.2f} s ({work.words}): {verdict(medians[name] <= most)}"
        if (peer := PEERS.get(name)) is not None and peer.note:
            line += f"   {peer.note}"
        lines.append(line)
    present = work.present(found)
    lines += [f"  {name}: left out, no environment was given" for name in work.peers if name not in present]
    if work.memory is not None:
        used = {name: each.memory for name, each in figures.items()}
        most = work.memory(used)
        lines.append(
            f"  memory of all its processes {used['zarrlift']:.0f} MB, at most {most:.0f} MB"
            f"{work.memory_words}: {verdict(used['zarrlift'] <= most)}"
        )
    slower = [name for name in present if medians["zarrlift"] > medians[name] * 1.03]
    said = f"BROKEN by {', '.join(slower)}" if slower else "holds"
    lines += [f"  no peer is faster by more than 3 %: {said}", ""]
    return Told(lines=lines, group=Group(name=work.name, bars=list(bars(medians))))


def bars(medians: Mapping[str, float]) -> Iterator[Bar]:
    """zarrlift, its peers, the limit: in the order of the table."""
    for name, seconds in medians.items():
        kind: Kind = "own" if name == "zarrlift" else "limit" if name in LIMITS else "peer"
        yield Bar(name=name, seconds=seconds, kind=kind)


def workload(base: Path, work: Workload, rounds: int, found: Environments) -> Told:
    """One of them, checked and measured."""
    assert work.name in WORK
    figures = check(base, work, found, count=not rounds)
    measure(tuple(commands(base, work, found)), rounds, figures)
    shutil.rmtree(base / f"{work.name}.result", ignore_errors=True)
    return told(work, figures, found)


def circumstances(rounds: int, found: Environments) -> list[str]:
    """What was measured, and on what."""
    return [f"{machine()},", f"{', '.join(versions(found))}; {rounds} rounds"]


def versions(found: Environments) -> Iterator[str]:
    """Of the peers, and of what makes zarrlift fast."""
    for name in ("tensorstore", "zarrs", "dask", "deflate", "isal"):
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            yield f"no {name}"
    if "zarrs_reencode" in found:
        answer = subprocess.run(
            (found["zarrs_reencode"], "--version"), check=True, capture_output=True, text=True
        )
        yield answer.stdout.split("(")[0].strip()
    else:
        yield "no zarrs_reencode"
    for name, packages in (("z5py", ("z5py",)), ("rechunker", ("rechunker", "zarr"))):
        if name not in found:
            yield f"no {name}"
            continue
        ask = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
        answer = subprocess.run(
            (found[name], "-c", ask, *packages), check=True, capture_output=True, text=True
        )
        first, *others = answer.stdout.split()
        with_ = "".join(
            f" with {package} {number}" for package, number in zip(packages[1:], others, strict=True)
        )
        yield f"{name} {first}{with_}"


def chosen(only: Sequence[str]) -> list[Workload | Section]:
    """What was asked for, in the order of the table; SystemExit for a name that nothing bears."""
    every: list[Workload | Section] = [*WORKLOADS, *SECTIONS]
    unknown = set(only) - {each.name for each in every}
    if unknown:
        names = ", ".join(each.name for each in every)
        raise SystemExit(f"no workload is called {', '.join(sorted(unknown))}; there are: {names}")
    return [each for each in every if not only or each.name in only]


def sources(works: Sequence[Workload | Section]) -> list[str]:
    """Their names, each once."""
    return list(dict.fromkeys(
        name for each in works for name in ((each.source,) if isinstance(each, Workload) else each.sources)
    ))  # fmt: skip


def main() -> None:
    """Write the sources, check every contender, run everything, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", default="/dev/shm", help="where the data is stored; best in memory")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of workloads, with commas between")
    parser.add_argument("--small", action="store_true", help="small sources, one run each")
    parser.add_argument("--z5py", metavar="ENVIRONMENT")
    parser.add_argument("--rechunker", metavar="ENVIRONMENT")
    parser.add_argument("--zarrs_reencode", metavar="FOLDER")
    parser.add_argument("--write", action="store_true", help="put table and chart into docs/")
    asked = parser.parse_args()
    only = [name.strip() for name in asked.only.split(",") if name.strip()]
    if asked.write and (only or asked.small):
        parser.error("--write takes the whole table: neither --only nor --small")
    works = chosen(only)
    found = environments(z5py=asked.z5py, rechunker=asked.rechunker, zarrs_reencode=asked.zarrs_reencode)
    rounds = 0 if asked.small else asked.rounds
    about = circumstances(rounds, found)
    if asked.small:
        about.append("small sources, one run each: neither figures nor verdicts mean anything")
    lines, groups = [*about, ""], []
    base = Path(tempfile.mkdtemp(dir=asked.directory))
    try:
        script, size = HERE / "peers_sources.py", "small" if asked.small else "full"
        subprocess.run((sys.executable, script, base, size, *sources(works)), check=True)
        start = measure((Command(name="start", argv=(ZARRLIFT, "--version")),), rounds)["start"]
        lines += [f"zarrlift --version           {start}", ""]
        for each in works:
            if isinstance(each, Workload):
                result = workload(base, each, rounds, found)
            else:
                result = each.measure(base, rounds)
            lines += result.lines
            groups += [result.group] if result.group else []
            print("\n".join(result.lines), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(base)
    text = "\n".join(lines).rstrip()
    print(text)
    if asked.write:
        write(text, groups, about)


if __name__ == "__main__":
    main()
