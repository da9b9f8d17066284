"""zarrlift beside every peer and the machine's limits, workload by workload, in one interleaved run.

    python benchmarks/peers.py [--directory /dev/shm] [--rounds 3] [--only shards,...] [--write]

Every output is read back and compared with the source before anything is timed. With `--write` the
table goes into docs/speed.md.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from contenders import WORK
from harness import Command, Figures, measure, remover
from main_job import PAGE, ZARR, ZARRLIFT, machine

HERE = Path(__file__).parent
_TABLE = re.compile(r"(?s)(<!-- figures: benchmarks/peers\.py --write -->\n\n)```text\n.*?```")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One job, and who else can do it."""

    name: str
    source: str
    options: Sequence[str]
    peers: Sequence[str]
    limit: str
    """What cannot be beaten: "copy" (cp -r of the source), "one file" (its bytes into one), "codecs"."""
    promise: Callable[[dict[str, float]], float] | None = None
    """Seconds at most, given the medians of this workload by contender."""
    words: str = ""
    most_megabytes: float | None = None
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


_ALL = ("tensorstore", "zarr-python", "zarr-python with zarrs", "dask")
WORKLOADS = (
    Workload(
        name="copy", source="large.zarr", options=(), peers=_ALL, limit="copy",
        promise=lambda found: found["copy"] * 1.5 + 0.5, words="1.5 x cp -r + 0.5 s",
    ),
    Workload(
        name="shards", source="large.zarr", options=("--shards", "4,4,4"), peers=_ALL, limit="as many files",
        promise=lambda found: min(found["as many files"] * 1.3 + 0.5, found["tensorstore"] / 2),
        words="1.3 x the same bytes into as many files + 0.5 s, half of tensorstore", most_megabytes=150,
    ),
    Workload(
        name="n5 gzip", source="blocks.n5", options=(), peers=("tensorstore",), limit="copy",
        promise=lambda found: found["tensorstore"] / 10, words="a tenth of tensorstore",
    ),
    Workload(
        name="n5 zstd", source="blocks.n5", options=("--codecs", "zstd:3", "--endian", "little"),
        peers=("tensorstore",), limit="codecs alone",
        promise=lambda found: found["codecs alone"] * 1.2 + 0.5, words="1.2 x codecs + 0.5 s",
    ),
    Workload(
        name="float", source="float.zarr",
        options=("--codecs", "blosc:zstd:5:shuffle", "--endian", "little", "--order", "C"),
        # zarrs reads no big-endian arrays.
        peers=("tensorstore", "zarr-python", "dask"), limit="codecs alone",
        promise=lambda found: found["codecs alone"] * 1.1 + 0.5, words="1.1 x codecs + 0.5 s",
    ),
    Workload(
        name="tiny", source="tiny.zarr", options=(), peers=_ALL, limit="copy",
        promise=lambda found: found["copy"] * 2 + 0.5, words="2 x cp -r + 0.5 s",
    ),
    Workload(
        name="tiny shards", source="tiny.zarr", options=("--shards", "7,7,7"), peers=_ALL, limit="one file",
        promise=lambda found: min(found["one file"] + 0.6, found["tensorstore"], found["zarr-python"] / 20),
        words="one file + 0.6 s, tensorstore, a 20th of zarr-python",
    ),
    Workload(
        name="rechunk", source="planes.zarr",
        options=("--chunks", "64,64,64", "--shards", "4,4,4", "--codecs", "zstd:3"),
        peers=_ALL, limit="codecs alone",
        promise=lambda found: min(found[name] for name in _ALL), words="every peer",
    ),
)  # fmt: skip


def commands(base: Path, work: Workload) -> Iterator[Command]:
    """Every contender of a workload."""
    source, out = base / work.source, base / "out"
    clear = remover(out, base / "out.zarrlift.db")

    def run(name: str, *argv: object, prepare: Callable[[], None] = clear) -> Command:
        return Command(name=name, argv=tuple(map(str, argv)), prepare=prepare)

    yield run("zarrlift", ZARRLIFT, "migrate", source, out, *work.options)
    for peer in (*work.peers, *(("codecs alone",) if work.limit == "codecs alone" else ())):
        yield run(peer, sys.executable, HERE / "contenders.py", peer, source, out, work.name)
    if work.limit == "copy":
        yield run("copy", "cp", "-r", source, out)
    elif work.limit == "one file":
        yield run("one file", "sh", "-c", f"find {source} -type f -print0 | xargs -0 cat > {out}")
    elif work.limit == "as many files":
        sharded = base / f"{work.name}.result"
        yield run("as many files", "cp", "-r", sharded, out)


def check(base: Path, work: Workload) -> None:
    """Run each contender once, and compare what it wrote with the source."""
    for command in commands(base, work):
        if command.name in ("copy", "one file", "as many files", "codecs alone"):
            continue
        command.prepare()
        subprocess.run(command.argv, check=True, stdout=subprocess.DEVNULL)
        same(base / work.source, base / "out")
        if command.name == "zarrlift" and work.limit == "as many files":
            shutil.copytree(base / "out", base / f"{work.name}.result", dirs_exist_ok=True)
    remover(base / "out", base / "out.zarrlift.db")()


def same(source: Path, result: Path) -> None:
    """SystemExit unless tensorstore reads the same values from both."""
    script = """
import sys, tensorstore as ts
old = ts.open({"driver": sys.argv[3], "kvstore": f"file://{sys.argv[1]}/"}).result()
if sys.argv[3] == "n5":
    old = old[ts.d[:].transpose[::-1]]
new = ts.open({"driver": "zarr3", "kvstore": f"file://{sys.argv[2]}/"}).result()
step = 64
for start in range(0, old.shape[0], step):
    part = slice(start, min(start + step, old.shape[0]))
    if (old[part].read().result() != new[part].read().result()).any():
        raise SystemExit(f"{sys.argv[2]} differs from {sys.argv[1]} in {part}")
"""
    driver = "n5" if source.suffix == ".n5" else "zarr"
    subprocess.run((sys.executable, "-c", script, source, result, driver), check=True)


def table(work: Workload, figures: dict[str, Figures]) -> Iterator[str]:
    """The rows of one workload."""
    medians = {name: found.median for name, found in figures.items()}
    yield f"{work.name}: {work.source} {' '.join(work.options)}".rstrip()
    for name, found in figures.items():
        line = f"  {name:26} {found}"
        if name == "zarrlift" and work.promise is not None:
            most = work.promise(medians)
            line += (
                f"   at most {most:.2f} s ({work.words}): {'holds' if medians[name] <= most else 'BROKEN'}"
            )
        yield line
    if work.most_megabytes is not None:
        holds = figures["zarrlift"].peak < work.most_megabytes
        yield f"  memory at most {work.most_megabytes:.0f} MB: {'holds' if holds else 'BROKEN'}"
    slower = [name for name in work.peers if medians["zarrlift"] > medians[name] * 1.05]
    yield f"  faster than every peer: {'BROKEN by ' + ', '.join(slower) if slower else 'holds'}"
    yield ""


def metadata(base: Path, rounds: int) -> Iterator[str]:
    """2,000 arrays in place, beside zarr's own migration."""
    many, out = base / "many.zarr", base / "out"
    clear = remover(out, base / "out.zarrlift.db")

    def fresh() -> None:
        clear()
        shutil.copytree(many, out)

    figures = measure(
        (
            Command(name="zarrlift", argv=(ZARRLIFT, "migrate", str(out), "--in-place"), prepare=fresh),
            Command(name="zarr migrate v3", argv=(ZARR, "migrate", "v3", str(out)), prepare=fresh),
        ),
        rounds,
    )
    yield "metadata of 2,000 arrays in place"
    most = figures["zarr migrate v3"].median / 8
    for name, found in figures.items():
        promise = ""
        if name == "zarrlift":
            promise = (
                f"   at most {most:.2f} s (an 8th of zarr's): {'holds' if found.median <= most else 'BROKEN'}"
            )
        yield f"  {name:26} {found}{promise}"
    yield ""
    clear()


def main() -> None:
    """Write the sources, check every contender, run everything, print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    only = [name.strip() for name in asked.only.split(",") if name]
    base = Path(tempfile.mkdtemp(dir=asked.directory))
    lines = [f"{machine()}, {asked.rounds} rounds", ""]
    try:
        subprocess.run((sys.executable, str(HERE / "peers_sources.py"), str(base)), check=True)
        start = measure((Command(name="start", argv=(ZARRLIFT, "--version")),), asked.rounds)["start"]
        lines += [f"zarrlift --version             {start}", ""]
        for work in WORKLOADS:
            if only and work.name not in only:
                continue
            assert work.name in WORK
            check(base, work)
            lines += table(work, measure(tuple(commands(base, work)), asked.rounds))
            print("\n".join(lines[-8:]), file=sys.stderr)
        if not only or "metadata" in only:
            lines += metadata(base, asked.rounds)
    finally:
        shutil.rmtree(base)
    text = "\n".join(lines).rstrip()
    print(text)
    if asked.write:
        page = PAGE.read_text()
        PAGE.write_text(_TABLE.sub(lambda match: f"{match[1]}```text\n{text}\n```", page, count=1))


if __name__ == "__main__":
    main()
