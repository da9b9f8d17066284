"""The commands of each kind of workload: zarrlift, others who can do the same, and the machine's limit.

Each is a context manager: it makes what the commands need, gives them, and clears away what they wrote.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import bucket
from harness import Command

PYTHON = sys.executable
ZARRLIFT, ZARR = (str(Path(PYTHON).with_name(name)) for name in ("zarrlift", "zarr"))
PROGRAMS = Path(__file__).with_name("programs.py")


@dataclass(frozen=True, slots=True)
class Setting:
    """Where a workload runs."""

    base: Path
    """A folder with the sources."""
    programs: Mapping[str, str]
    """The Python, or the program itself, of each peer with an environment that exists."""


APART = ("z5py", "zarrs_reencode")
"""Peers that are not installed beside zarrlift."""
NOTES = {"zarrs_reencode": "keeps no job; single arrays of Zarr v2 and v3 only"}
"""What a peer does less than the others."""


def remover(*paths: Path) -> Callable[[], None]:
    """A `prepare` that clears what an earlier round wrote, with the job beside it."""

    def remove() -> None:
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            for file in (path, path.with_name(f"{path.name}.zarrlift.db")):
                file.unlink(missing_ok=True)

    return remove


def identical(one: Path, other: Path) -> None:
    """SystemExit unless both folders have the same files."""
    if subprocess.run(("diff", "-rq", one, other), check=False).returncode:
        raise SystemExit(f"{one} and {other} have other files")


def same(source: object, result: object) -> None:
    """SystemExit unless both hold the same values, compared in a process of its own: this one stays small."""
    words = [str(word) for word in (PYTHON, PROGRAMS, "same", source, result, "{}")]
    done = subprocess.run(words, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{result} is not what was asked for:\n{done.stderr}")


@contextmanager
def migrations(
    source_name: str,
    options: str,
    result: Mapping[str, Any],
    peers: Sequence[str],
    limit: str,
    setting: Setting,
) -> Iterator[list[Command]]:
    """An array beside every library that can do the same; `result` is what they write (programs.py)."""
    source, kept, container = (setting.base / name for name in (source_name, "kept", "out.zarr"))
    out, remove = container / "volume", remover(container)

    def clear() -> None:
        remove()
        container.mkdir()

    def keep() -> None:
        same(source, out)
        if limit == "as many files":
            shutil.copytree(out, kept)

    def program(name: str, python: str = PYTHON) -> list[object]:
        return [python, PROGRAMS, name, source, out, json.dumps(result)]

    lift = [ZARRLIFT, "migrate", source, out, *options.split()]
    commands = [Command(name="zarrlift", argv=lift, prepare=clear, check=keep)]
    for name in peers:
        if name in APART and name not in setting.programs:
            continue
        argv = program(name, setting.programs.get(name, PYTHON))
        if name == "zarrs_reencode":
            argv = [setting.programs[name], *_reencode_options(result), source, out]
        given = {"prepare": clear, "check": partial(same, source, out), "note": NOTES.get(name, "")}
        commands.append(Command(name=name, argv=argv, kind="peer", **given))
    limits: dict[str, list[object]] = {
        "copy": ["cp", "-r", source, out],
        "links": ["cp", "-rl", source, out],
        "as many files": ["cp", "-r", kept, out],
        "one file": ["sh", "-c", f"find {source} -type f -print0 | xargs -0 cat > {out}"],
        "codecs alone": program("codecs alone"),
    }
    yield [*commands, Command(name=limit, argv=limits[limit], kind="limit", prepare=clear)]
    remover(container, kept)()


def _reencode_options(result: Mapping[str, Any]) -> Iterator[str]:
    first, *others = result["codecs"]
    yield from ("--chunk-shape", ",".join(map(str, result["chunks"])))
    yield from ("--array-to-bytes-codec", json.dumps(first), "--bytes-to-bytes-codecs", json.dumps(others))
    if "shards" in result:
        yield from ("--shard-shape", ",".join(map(str, result["shards"])))


@contextmanager
def metadata(setting: Setting) -> Iterator[list[Command]]:
    """Arrays in place, beside zarr's own migration."""
    many, out = setting.base / "many.zarr", setting.base / "out"
    clear = remover(out)

    def fresh() -> None:
        clear()
        shutil.copytree(many, out)

    yield [
        Command(name="zarrlift", argv=[ZARRLIFT, "migrate", out, "--in-place"], prepare=fresh),
        Command(name="zarr migrate v3", argv=[ZARR, "migrate", "v3", out], kind="peer", prepare=fresh),
    ]
    clear()


@contextmanager
def memory(options: str, limits: Sequence[str], setting: Setting) -> Iterator[list[Command]]:
    """A migration within limits of `--memory`, which gives the same files with each."""
    source, out, kept = (setting.base / name for name in ("deep.zarr", "out", "kept"))

    def check() -> None:
        if kept.exists():
            identical(out, kept)
        else:
            same(source, out)
            shutil.copytree(out, kept)

    argv = [ZARRLIFT, "migrate", source, out, *options.split(), "--memory"]
    yield [
        Command(name=f"zarrlift --memory {limit}", argv=[*argv, limit], prepare=remover(out), check=check)
        for limit in limits
    ]
    remover(out, kept)()


@contextmanager
def plans(setting: Setting) -> Iterator[list[Command]]:
    """Plans of a huge grid."""
    destinations = {
        "a copy": (), "--shards auto": ("--shards", "auto"), "--chunks 128^3": ("--chunks", "128,128,128"),
    }  # fmt: skip
    yield [
        Command(
            name=f"{what}, {name}",
            argv=[ZARRLIFT, "migrate", setting.base / source, setting.base / "out", *options, "--dry-run"],
        )
        for source, what in (("absent.zarr", "metadata alone"), ("sparse.zarr", "10,000 chunks there"))
        for name, options in destinations.items()
    ]


@contextmanager
def updates(options: Sequence[str], setting: Setting) -> Iterator[list[Command]]:
    """1 % of the chunks get the content of others: any of them, or for shards the last rows."""
    source, result, fresh = (setting.base / f"{name}.zarr" for name in ("updated", "result", "fresh"))
    side = len(list((source / "a").glob("*.0")))
    total, chance = side * side, random.Random(0)
    count = max(total // 100, 1)
    migrate = [ZARRLIFT, "migrate", source]
    subprocess.run([*map(str, (*migrate, result, *options)), "--quiet"], check=True)

    def change() -> None:
        remover(fresh)()
        rows = range(total - count, total)
        for number in rows if "--shards" in options else chance.sample(range(total), count):
            other = source / f"a/{chance.randrange(side)}.{chance.randrange(side)}"
            (source / f"a/{number // side}.{number % side}").write_bytes(other.read_bytes())

    yield [
        Command(name="migrate", argv=[*migrate, fresh, *options, "--quiet"], prepare=change),
        Command(
            name="update",
            argv=[ZARRLIFT, "update", result, "--quiet"],
            check=partial(identical, result, fresh),
        ),
    ]
    remover(result, fresh)()


@contextmanager
def in_store(
    source: str, result: Mapping[str, Any], milliseconds: float, setting: Setting
) -> Iterator[list[Command]]:
    """A copy within an object store; `sharded` as a source is what `source` becomes before."""
    place, job = f"s3://bucket/{source}", setting.base / "job.db"
    shards = "5x" if "shards" in result else "none" if source == "sharded" else ""
    options = ["--shards", shards] if shards else []
    with bucket.served() as store:
        store.fill(setting.base / "store.zarr", "source")
        words = (ZARRLIFT, "migrate", "s3://bucket/source", "s3://bucket/sharded", "--shards", "5x", "--job")
        subprocess.run([*words, job], check=True, capture_output=True)

        def contender(name: str, *argv: object) -> Command:
            key = name.replace(" ", "-").replace(",", "")
            target = f"s3://bucket/{key}"

            def prepare() -> None:
                remover(job)()
                store.clear(key)
                store.begin(milliseconds)

            return Command(
                name=name,
                argv=[target if word is ... else f"{target}/a" if word == "a" else word for word in argv],
                kind="own" if argv[0] == ZARRLIFT else "peer",
                prepare=prepare,
                check=partial(same, f"{place}/a", f"{target}/a"),
                after=store.end,
            )

        def peer(name: str, program: str, **more: object) -> Command:
            words = (PYTHON, PROGRAMS, program, f"{place}/a", "a", json.dumps({**result, **more}))
            return contender(name, *words)

        lift = (ZARRLIFT, "migrate", place, ..., "--job", job, *options)
        slabs = {"region": (160, 1 << 20, 1 << 20), "threads": 1}
        yield [
            contender("zarrlift", *lift),
            peer("tensorstore", "tensorstore", slab=1 << 20),
            peer("zarr-python, 64 at once", "zarr-python", concurrency=64, **slabs),
            peer("zarr-python", "zarr-python", **slabs),
        ]
    remover(job)()
