"""One scenario in a folder of its own: disturbed, judged at once, finished, compared with a calm run."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.bucket import Bucket
from tests.support.store_servers import KEY, SECRET
from tests.zarrlift.jobs.faults.commands import Ended
from tests.zarrlift.jobs.faults.judging import (
    UPLOADS,
    Calm,
    is_opaque,
    is_replaced,
    said_badly,
    tree,
    wrong_at_the_end,
    wrong_bytes,
    wrong_now,
)
from tests.zarrlift.jobs.faults.scenarios import RESUME, RESUME_IN_PLACE, SOURCES, Scenario, Words
from tests.zarrlift.jobs.faults.stage import KILLED, Stage, killing

_MAX_KILLS = 3
_SHARES = (0.0005, 0.002, 0.01, 0.05)


@dataclass(slots=True)
class Told:
    """What one disturbed run showed."""

    scenario: str
    orders: list[str] = field(default_factory=list)
    """What was done to it."""
    then: list[str] = field(default_factory=list)
    """Commands that went on with it."""
    kills: int = 0
    reached: int = 0
    """Orders whose moment came; a worker that was killed alone may have been replaced."""
    failed: int = 0
    """Calls that failed."""
    codes: list[int | str] = field(default_factory=list)
    met: Counter[str] = field(default_factory=Counter)
    """Requests to the bucket that failed, by kind."""
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        head = f"{self.scenario}: {'; '.join(self.orders)} ({', '.join(self.then)})"
        return "\n".join((head, *(f"    {line}" for line in self.wrong)))


class Playground:
    """Where scenarios run, one after another."""

    def __init__(self, folder: Path, bucket: Bucket, *, faults: float = 0.0) -> None:
        """`faults` is the share of requests to the bucket that fail while a run is disturbed."""
        self.folder = folder
        self.faults = faults
        self._hasty = False
        self._repository: str | None = None
        self.bucket = bucket
        environment = {
            "AWS_ENDPOINT_URL": bucket.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self.stage = Stage(folder, environment)
        self.home = self.stage.home
        self.control = self.stage.control
        self._calm: dict[str, Calm] = {}

    def close(self) -> None:
        """End what was started."""
        self.stage.close()

    # What is run

    def _begin(self, scenario: Scenario) -> None:
        """The scenario's source, and nothing else."""
        pristine = self.folder / "sources" / scenario.source
        if not pristine.exists():
            pristine.mkdir(parents=True)
            SOURCES[scenario.source](pristine / "source.zarr")
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(pristine, self.home)
        (self.home / "tmp").mkdir()
        self.bucket.server.clear()
        self._repository = self._place(scenario, "dst", "out.zarr") if "icechunk" in scenario.remote else None
        if "src" in scenario.remote:
            files = tree(self.home / "source.zarr")
            self.bucket.put("source.zarr", {name: data for name, data in files.items() if data is not None})
            shutil.rmtree(self.home / "source.zarr")

    def _ready(self, scenario: Scenario) -> None:
        self._begin(scenario)
        for words in scenario.before:
            self._calmly(scenario, words)

    def run(
        self, scenario: Scenario, words: Words, act: Callable[[], object] | None = None, **orders: int
    ) -> Ended:
        """Run one command to its end, with orders to the shim and what is done at `pause_change`."""
        places = {
            "home": str(self.home),
            "src": self._place(scenario, "src", "source.zarr"),
            "dst": self._place(scenario, "dst", "out.zarr"),
        }
        filled = [word if word.startswith('{"') else word.format(**places) for word in words]
        network = bool(scenario.remote - {"file"})
        ended = self.stage.run(
            *filled, network=network, tight=scenario.tight, hasty=self._hasty, act=act, **orders
        )
        while self.bucket.busy:  # a request of a killed client may still be answered
            time.sleep(0.001)
        return ended

    def _place(self, scenario: Scenario, end: Any, name: str) -> str:
        scheme = ""
        if end == "dst" and "icechunk" in scenario.remote:
            scheme = "icechunk+" if "dst" in scenario.remote else "icechunk://"
        if end in scenario.remote:
            return f"{scheme}s3://bucket/{name}"
        if scheme:
            return f"{scheme}{self.home / name}"
        return f"{'file://' if 'file' in scenario.remote else ''}{self.home / name}"

    def _calmly(self, scenario: Scenario, words: Words) -> None:
        ended = self.run(scenario, words)
        assert ended.code == 0, str(ended)

    def tree(self) -> dict[str, bytes | None]:
        """Everything in the folder and in the bucket, and uploads that nobody ended."""
        server = self.bucket.server
        if self._repository is not None:
            return self._tree_of_main(self._repository)
        objects = {f"s3/{key}": b"" if is_opaque(key) else data for key, data in server.objects().items()}
        return tree(self.home) | objects | {f"{UPLOADS}{name}": b"" for name in server.uploads()}

    def _tree_of_main(self, place: str) -> dict[str, bytes | None]:
        """The same, with what readers of a repository see in place of its files."""
        files = tree(self.home)
        objects = {
            f"s3/{key}": b"" if is_opaque(key) else data for key, data in self.bucket.server.objects().items()
        }
        for found in (files, objects):
            for name in [name for name in found if re.match(r"(s3/)?out\.zarr(/|$)", name)]:
                del found[name]
        return files | objects | self._seen_in_main(place)

    def _seen_in_main(self, place: str) -> dict[str, bytes | None]:
        """What is in the repository; where the bucket fails, an answer to the judge may be cut too."""
        import icechunk

        for _ in range(4):
            with suppress(icechunk.IcechunkError):
                return seen_in_main(place, self.bucket.endpoint)
        return seen_in_main(place, self.bucket.endpoint)

    def calm(self, scenario: Scenario) -> Calm:
        """The undisturbed run, done once."""
        if scenario.id not in self._calm:
            self._begin(scenario)
            source = self.tree()
            for words in scenario.before:
                self._calmly(scenario, words)
            old = self.tree()
            self._calmly(scenario, scenario.words)
            calls, changes = self.control.block.calls, self.control.block.changes
            then = self.tree()
            if scenario.words not in scenario.again:
                self._calmly(scenario, scenario.again[0])
            for words in scenario.after:
                self._calmly(scenario, words)
            whole = old if scenario.whole == "before" else then
            self._calm[scenario.id] = Calm(calls, changes, source, old, whole, then, self.tree())
        return self._calm[scenario.id]

    # Disturbances

    def killed(self, scenario: Scenario, orders: random.Random | list[str]) -> Told:
        """Kill the command, up to three times, at drawn moments or at those given; then finish.

        An order is "call 12" or "change 12", before which all processes of the command are killed; "alone"
        behind it spares the others than the one that makes the call. "40%" counts from a calm run. Before
        them, "faults 0.05 7" lets that share of the bucket's answers go wrong, by this seed.
        """
        calm = self.calm(scenario)
        told = Told(scenario.id)
        self._ready(scenario)
        if isinstance(orders, random.Random) and self.faults:
            told.orders.append(f"faults {self.faults} {orders.randrange(1 << 32)}")
        elif isinstance(orders, list) and orders[0].startswith("faults"):
            told.orders.append(orders[0])
            orders = orders[1:]
        if told.orders:
            _, share, seed = told.orders[0].split()
            told.met = self.bucket.disturb(seed, float(share))
            told.reached = 1
        self._hasty = bool(told.orders)
        try:
            return self._killed(scenario, calm, told, orders)
        finally:
            self.bucket.calm()
            self._hasty = False

    def _killed(self, scenario: Scenario, calm: Calm, told: Told, orders: random.Random | list[str]) -> Told:
        drawn = isinstance(orders, random.Random)
        rng = orders if isinstance(orders, random.Random) else random.Random(0)
        replaced = False
        for turn in range(_MAX_KILLS if isinstance(orders, random.Random) else len(orders)):
            order = _moment(calm, rng) if isinstance(orders, random.Random) else orders[turn]
            told.orders.append(order)
            words = self._next(scenario, rng, told) if turn else scenario.words
            ended = self.run(scenario, words, **_kill(order, calm))
            told.codes.append(ended.code)
            block = self.control.block
            told.reached += 0 < block.kill_call <= block.calls or 0 < block.kill_change <= block.changes
            told.kills += ended.code == KILLED
            told.wrong += [] if ended.code == KILLED else said_badly(ended)
            now = self.tree()
            told.wrong += wrong_now(now, scenario, calm, replaced=replaced)
            replaced = replaced or is_replaced(now, calm)
            if told.wrong or ended.code != KILLED or (drawn and rng.random() < 0.7):
                break
        return told if told.wrong else self._finish(scenario, calm, rng, told)

    def failing(self, scenario: Scenario, order: random.Random | str) -> Told:
        """Let calls of the command fail; then finish without. An order is fields of the control block."""
        calm = self.calm(scenario)
        told = Told(scenario.id)
        self._ready(scenario)
        rng = order if isinstance(order, random.Random) else random.Random(0)
        text = _failure(calm, order) if isinstance(order, random.Random) else order
        told.orders.append(text)
        fields = {name: int(value) for name, _, value in (word.partition("=") for word in text.split())}
        ended = self.run(scenario, scenario.words, **fields)
        told.codes.append(ended.code)
        told.failed = self.control.block.failed
        calls = self.control.failures()
        now = self.tree()
        told.wrong += said_badly(ended) + wrong_now(now, scenario, calm)
        if ended.code == 0:
            told.wrong += wrong_bytes(now, calm.then)
        if not told.wrong:
            self._finish(scenario, calm, rng, told)
        if told.wrong:
            told.wrong += [str(ended), *calls]
        return told

    # And after

    def _job(self) -> bool:
        return any(self.home.glob("*.db"))

    def _next(self, scenario: Scenario, rng: random.Random, told: Told) -> Words:
        """The command that goes on from here."""
        if not self._job():
            return scenario.words
        words = rng.choice(scenario.again)
        told.then.append(words[0])
        if words in (RESUME, RESUME_IN_PLACE) and "--job" in scenario.words:
            return ("resume", scenario.words[-1])
        return words

    def _finish(self, scenario: Scenario, calm: Calm, rng: random.Random, told: Told) -> Told:
        begin = () if scenario.words in scenario.again or self._job() else (scenario.words,)
        for words in (*begin, None, *scenario.after):
            ended = self.run(scenario, words or self._next(scenario, rng, told))
            if ended.code != 0 or said_badly(ended):
                told.wrong.append(f"does not go on: {ended}")
                return told
        told.wrong += wrong_at_the_end(self.tree(), scenario, calm)
        return told


def _moment(calm: Calm, rng: random.Random) -> str:
    unit, most = rng.choice([("call", calm.calls), ("change", calm.changes)])
    return f"{unit} {rng.randint(1, most)}" + (" alone" if rng.random() < 0.15 else "")


def _kill(order: str, calm: Calm) -> dict[str, int]:
    unit, number, *alone = order.split()
    if number.endswith("%"):
        count = calm.calls if unit == "call" else calm.changes
        number = str(max(count * int(number[:-1]) // 100, 1))
    return killing(" ".join((unit, number, *alone)))


def _failure(calm: Calm, rng: random.Random) -> str:
    """One call, a share of all, or a disk that is full from some call on."""
    order = f"seed={rng.randrange(1 << 32)} stats={rng.randrange(2)} "
    kind = rng.random()
    if kind < 0.5:
        return f"{order}fail_call={rng.randint(1, calm.calls)}"
    if kind < 0.65:
        return f"{order}full_from={rng.randint(1, calm.calls)}"
    return f"{order}share={int(rng.choice(_SHARES) * (1 << 32))}"


def seen_in_main(place: str, endpoint: str) -> dict[str, bytes | None]:
    """What Icechunk gives to readers of the branch `main`."""
    import icechunk
    from zarr.core.buffer import default_buffer_prototype

    icechunk.set_logs_filter("error")
    if place.startswith("icechunk+s3://bucket/"):
        prefix = place.removeprefix("icechunk+s3://bucket/")
        address = {
            "endpoint_url": endpoint,
            "allow_http": True,
            "force_path_style": True,
            "region": "us-east-1",
        }
        keys = {"access_key_id": KEY, "secret_access_key": SECRET}
        storage = icechunk.s3_storage(bucket="bucket", prefix=prefix, **address, **keys)
    else:
        storage = icechunk.local_filesystem_storage(place.removeprefix("icechunk://"))
    if not icechunk.Repository.exists(storage):
        return {}
    store = icechunk.Repository.open(storage).readonly_session("main").store

    async def content() -> dict[str, bytes | None]:
        found: dict[str, bytes | None] = {}
        async for key in store.list():
            value = await store.get(key, default_buffer_prototype())
            assert value is not None, key
            found[f"out.zarr/{key}"] = value.to_bytes()
        return found

    return asyncio.run(content())
