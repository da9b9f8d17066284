"""Remove, empty and move parts of results before, during and after commands, and say what came of it.

    python tests/zarrlift/jobs/faults/removals.py --runs 300 [--seed N] [--only TEXT]
    python tests/zarrlift/jobs/faults/removals.py --only "copy, consolidated" --seed N --number 17

A game takes a scenario (`scenarios.py`) and up to five commands. Chunks, directories of them, arrays, the
root of the result or its parent are removed, emptied, moved, replaced or put back between commands, and
during them before a change that the shim counts (`system_calls.c`); some commands are killed. After each
command that ended: it exits 0 only if nothing is missing, an array that is visible without its objects is
named, and nothing outside the destination has changed. What is removed after the last listing of a command,
while it closes its job, is named by the next one. The seed is printed, and each failure with its steps.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import secrets
import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.support.bucket import serving
from tests.zarrlift.jobs.faults.commands import Ended
from tests.zarrlift.jobs.faults.judging import Tree, said_badly, tree
from tests.zarrlift.jobs.faults.playground import Playground, Told
from tests.zarrlift.jobs.faults.scenarios import IN_PLACE, MIGRATE, SCENARIOS, Scenario, Words
from tests.zarrlift.jobs.faults.stage import KILLED, folder_in_memory

JOB = "{home}/job.db"
CHOSEN = [
    scenario
    for scenario in SCENARIOS
    if scenario.words[: len(MIGRATE)] in (MIGRATE, IN_PLACE) or scenario.words == IN_PLACE
    if "icechunk" not in scenario.remote
    if not {"--overwrite", "--job"} & set(scenario.words) and scenario.source != "mixed, and a stranger"
    if ("undo", "--yes") not in [words[:2] for words in scenario.again]
]
"""What writes a result in a directory or a bucket and is not taken back."""
RESULTS = "results"
"""The parent of the result, so that it can be moved without the source."""
_NEXT = {"resume": 6, "migrate": 2, "update": 3, "update --force": 1, "status --check": 3}
_COMMANDS = 5
_LAST = 80
"""Changes after the last listing of a command, most of them of its job file."""


class Removals(Playground):
    """Where games run, one after another."""

    lost: tuple[str, ...] = (
        "moved, deleted or replaced",
        "is gone",
        "are gone",
        "belongs to another location",
    )
    """What is said where the result as a whole is not there."""

    def _begin(self, scenario: Scenario) -> None:
        super()._begin(scenario)
        (self.home / RESULTS).mkdir()
        (self.home / "elsewhere").mkdir()
        (self.home / "elsewhere/of others").write_bytes(b"others")
        self._moved: list[tuple[Path, Path]] = []
        self._during: set[str] = set()

    def _place(self, scenario: Scenario, end: Any, name: str) -> str:
        place = super()._place(scenario, end, name)
        return place.replace(f"{self.home}/out.zarr", f"{self.home}/{RESULTS}/out.zarr")

    def tree(self) -> dict[str, bytes | None]:
        """What there is, with the result at the top."""
        return {name.removeprefix(f"{RESULTS}/"): data for name, data in super().tree().items()}

    def game(self, scenario: Scenario, rng: random.Random) -> Told:
        """Play one game; what was wrong is in the answer."""
        calm = self.calm(scenario)
        told = Told(scenario.id)
        self._ready(scenario)
        job = ("--job", JOB) if rng.random() < 0.5 else ()
        commands = rng.randint(2, _COMMANDS)
        for number in range(commands):
            words = self._drawn(scenario, rng, job) if number else (*scenario.words, *job)
            during: list[str] = []
            orders = {"kill_change": rng.randint(1, calm.changes)} if rng.random() < 0.3 else {}
            act = None
            # What is removed of an archive before it is migrated in place is not the job's.
            has_result = not scenario.in_place or 0 in told.codes
            if rng.random() < 0.6 and has_result:
                orders["pause_change"] = rng.randint(1, calm.changes)
                act = self._acting(scenario, rng, during)
            before, self._during = self._outside(scenario), set()
            ended = self.run(scenario, words, act=act, **orders)
            told.codes.append(ended.code)
            told.kills += ended.code == KILLED
            told.reached += len(during)
            orders["changes"] = self.control.block.changes
            line = f"{' '.join(words[:1] + words[2:])} {orders} {'; '.join(during)} -> {ended.code}"
            told.orders.append(line)
            late = bool(during) and orders["changes"] - orders["pause_change"] < _LAST
            self._judge(scenario, calm.then, ended, told, before, late=late)
            if late and not told.wrong:
                check: Words = ("status", self._target(scenario, job), "--check")
                self._judge(scenario, calm.then, self.run(scenario, check), told, self._outside(scenario))
            if told.wrong:
                return told
            if rng.random() < 0.5 and (not scenario.in_place or 0 in told.codes):
                between: list[str] = []
                self._acting(scenario, rng, between)()
                told.orders += between
        return told

    def _drawn(self, scenario: Scenario, rng: random.Random, job: Words) -> Words:
        """A command that continues."""
        name = rng.choices([*_NEXT], [*_NEXT.values()])[0]
        if name.startswith("update") and scenario.in_place:
            name = "resume"  # an update takes the archive as it is, without what is gone
        if name == "migrate":
            return (*scenario.words, *job)
        verb, *options = name.split()
        return (verb, self._target(scenario, job), *options)

    def _target(self, scenario: Scenario, job: Words) -> str:
        return JOB if job else "{src}" if scenario.in_place else "{dst}"

    # What is removed

    def _acting(self, scenario: Scenario, rng: random.Random, told: list[str]) -> Any:
        def act() -> None:
            with suppress(OSError):  # the command has changed the tree meanwhile
                if "dst" in scenario.remote:
                    told.append(self._remove_objects(rng))
                else:
                    told.append(self._change(scenario, rng))

        return act

    def _remove_objects(self, rng: random.Random) -> str:
        keys = sorted(key for key in self.bucket.server.objects("out.zarr/"))
        chunks = [key for key in keys if not key.endswith(".json")]
        if not chunks:
            return "nothing to remove"
        key = rng.choice(chunks)
        prefix = rng.choice([key, f"{key.rpartition('/')[0]}/", f"{key.partition('/c/')[0]}/", "out.zarr/"])
        removed = [other for other in keys if other.startswith(prefix)]
        for other in removed:
            self.bucket.server.remove(other)
        return f"remove {len(removed)} of {prefix}"

    def _change(self, scenario: Scenario, rng: random.Random) -> str:
        root = self.home / ("source.zarr" if scenario.in_place else f"{RESULTS}/out.zarr")
        moved = [(away, back) for away, back in self._moved if not back.exists()]
        if moved and rng.random() < 0.5:
            away, back = moved[-1]
            self._moved.remove((away, back))
            away.rename(back)
            self._during.add(away.name)
            return f"put back {back.name}"
        kind = rng.choices(["chunk", "directory", "array", "root", "parent"], [5, 4, 3, 2, 1])[0]
        chunks = [file for file in sorted(root.rglob("*")) if _is_chunk(file)]
        if kind in ("chunk", "directory", "array") and not chunks:
            return "nothing to remove"
        if kind == "chunk":
            chosen = rng.sample(chunks, min(len(chunks), rng.choice([1, 1, 3])))
            for file in chosen:
                file.unlink()
            return f"remove {[file.relative_to(root).as_posix() for file in chosen]}"
        place = root if kind == "root" else root.parent
        if kind == "array":
            place = rng.choice(sorted({_array_of(file, root) for file in chunks}))
        if kind == "directory":
            place = rng.choice(sorted({file.parent for file in chunks}))
        if place == self.home or (scenario.in_place and place == root):
            return "nothing to remove"
        return f"{self._changed(place, rng)} {place.relative_to(self.home)}"

    def _changed(self, place: Path, rng: random.Random) -> str:
        how = rng.choice(["remove", "empty", "move", "replace"])
        if how == "remove":
            shutil.rmtree(place)
        elif how == "empty":
            for inside in list(place.iterdir()):
                shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
        else:
            away = self.home / f"away-{len(self._moved)}-{secrets.token_hex(2)}"
            place.rename(away)
            self._moved.append((away, place))
            self._during.add(away.name)
            if how == "replace":
                place.mkdir()
        return how

    # What is wrong

    def _outside(self, scenario: Scenario) -> dict[str, bytes | None]:
        """Everything that no command may change."""
        end = "source.zarr" if scenario.in_place else RESULTS
        files, jobs = tree(self.home), (end, "job.db", "out.zarr-", "events.")
        return {
            name: data
            for name, data in files.items()
            if name.partition("/")[0] not in (end, "tmp", "cache") and not name.startswith(jobs)
        }

    def _judge(
        self,
        scenario: Scenario,
        whole: Tree,
        ended: Ended,
        told: Told,
        before: Tree,
        *,
        late: bool = False,
    ) -> None:
        """`late`: what was removed may have been there at the last listing."""
        outside = self._outside(scenario)
        for name in sorted(before.keys() | outside.keys()):
            # What was moved during the command is the destination to it.
            is_moved = name.partition("/")[0] in self._during
            if before.get(name, "") != outside.get(name, "") and not is_moved:
                told.wrong.append(f"changed outside: {name}")
        if ended.code == KILLED:
            return
        told.wrong += said_badly(ended)
        if late and ended.code == 0:
            return
        root = "source.zarr" if scenario.in_place else "out.zarr"
        root = f"s3/{root}" if "dst" in scenario.remote else root
        now = self.tree()
        lacking = dict(_lacking(now, whole, root))
        visible = _visible(now, root)
        text = ended.out + ended.err
        if ended.code == 0 and lacking:
            told.wrong.append(f"exit 0 without {list(lacking.values())[:3]}")
        for path in sorted(
            path for path in visible & lacking.keys() if not all(map(_is_document, lacking[path]))
        ):
            name = path or "zarr.json"
            named = name in text or (not path and "  /  " in text)
            if ended.code == 0 or not (named or any(words in text for words in self.lost)):
                told.wrong.append(f"/{path} is visible without {lacking[path][:3]}, and is not named")
        if told.wrong:
            told.wrong.append(str(ended))


def _is_chunk(file: Path) -> bool:
    return file.is_file() and not _is_document(file.name)


def _is_document(name: str) -> bool:
    """Whether this is metadata of any format, also of a layer."""
    last = name.rpartition("/")[2]
    return last.startswith(".") or last.endswith((".json", ".crc32c")) or last in ("meta", "attrs")


def _array_of(file: Path, root: Path) -> Path:
    """The directory of the array of a chunk."""
    folder = file.parent
    while folder != root and not {"zarr.json", ".zarray"} & {inside.name for inside in folder.iterdir()}:
        folder = folder.parent
    return folder if folder != root else file.parent


def _arrays(found: Tree, root: str) -> Iterator[str]:
    for name, data in found.items():
        document = data if name.startswith(f"{root}/") and name.endswith("/zarr.json") else None
        if document is not None and json.loads(document)["node_type"] == "array":
            yield name.removeprefix(f"{root}/").removesuffix("zarr.json").rstrip("/")


def _visible(now: Tree, root: str) -> set[str]:
    """Paths of arrays that readers see, in their own document or in consolidated metadata."""
    visible = set(_arrays(now, root))
    document = json.loads(now.get(f"{root}/zarr.json") or b"{}")
    nodes = (document.get("consolidated_metadata") or {}).get("metadata", {})
    return visible | {path for path, node in nodes.items() if node["node_type"] == "array"}


def _lacking(now: Tree, whole: Tree, root: str) -> Iterator[tuple[str, list[str]]]:
    """Arrays and the objects of them that are not there or have other bytes."""
    for path in _arrays(whole, root):
        folder = f"{root}/{path}/" if path else f"{root}/"
        wanted = {name: data for name, data in whole.items() if name.startswith(folder) and data is not None}
        lost = [
            name
            for name, data in wanted.items()
            if now.get(name) != data
            and (not _is_document(name) or (name == f"{folder}zarr.json" and name not in now))
        ]
        if lost:
            yield path, lost


def main(of: type[Removals] = Removals, scenarios: Sequence[Scenario] = CHOSEN) -> int:
    """Play games of a kind; the exit code."""
    parser = argparse.ArgumentParser(
        description=sys.modules[of.__module__].__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--only", default="", help="scenarios whose id contains this")
    parser.add_argument("--number", type=int, help="this game alone")
    asked = parser.parse_args()
    logging.getLogger("aiohttp.server").disabled = True  # a killed client is not an error of the server
    chosen = [scenario for scenario in scenarios if asked.only in scenario.id]
    print(f"seed {asked.seed}, {len(chosen)} scenarios", flush=True)
    count, started = Counter[str](), time.monotonic()
    with folder_in_memory(f"zarrlift-{of.__name__.lower()}-") as folder, serving() as bucket:
        place = of(folder, bucket)
        try:
            for number in range(asked.runs) if asked.number is None else [asked.number]:
                scenario = chosen[number % len(chosen)]
                told = place.game(scenario, random.Random(f"{asked.seed} {number} {scenario.id}"))
                count.update(f"exit {code}" for code in told.codes)
                count["removals during commands"] += told.reached
                count["kills"] += told.kills
                count["wrong"] += bool(told.wrong)
                if told.wrong or asked.number is not None:
                    print(f"game {number}, {told}", flush=True)
                if not (number + 1) % 50:
                    print(f"... {number + 1} games, {count['wrong']} wrong", flush=True)
        finally:
            place.close()
    figures = ", ".join(f"{value} {name}" for name, value in sorted(count.items()))
    print(f"seed {asked.seed}: {asked.runs} games in {time.monotonic() - started:.0f} s: {figures}")
    return 1 if count["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
