"""Put links in place of directories before, during and after commands, and say what was written through them.

    python tests/zarrlift/jobs/faults/links.py --runs 300 [--seed N] [--only TEXT]
    python tests/zarrlift/jobs/faults/links.py --only "copy, consolidated" --seed N --number 17

A game is one of `removals.py`, in which the root of the result, its parent, directories of arrays or of
chunks, or those that are still to be made, are replaced by links to the source, to another result of the same
source, or to a folder of something else. The directory that was there is moved away and sometimes put back.
Some games end with `undo`. After each command everything outside the destination is compared byte by byte,
also after a kill. What was moved away while a command ran is the destination to that command and to no other.
"""

from __future__ import annotations

import random
import secrets
import sys
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.zarrlift.jobs.faults import removals
from tests.zarrlift.jobs.faults.judging import said_badly
from tests.zarrlift.jobs.faults.playground import Told
from tests.zarrlift.jobs.faults.removals import JOB, RESULTS, Removals
from tests.zarrlift.jobs.faults.scenarios import Scenario

CHOSEN = [scenario for scenario in removals.CHOSEN if "dst" not in scenario.remote]
"""What writes a result in a directory."""
OTHERS = "others"
"""The parent of another result, with the same name."""


class Links(Removals):
    """Where games run, one after another."""

    lost = (
        *Removals.lost,
        "leads elsewhere now",
        "a link to ",
        "are the same place",
        "is inside the",
        "a link points outside",
    )

    def _ready(self, scenario: Scenario) -> None:
        super()._ready(scenario)
        name = _root(scenario)
        for file, data in self.calm(scenario).then.items():
            if data is not None and file.startswith(f"{name}/"):
                path = self.home / OTHERS / file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    def game(self, scenario: Scenario, rng: random.Random) -> Told:
        """Play one game, which may end with an undo; what was wrong is in the answer."""
        told = super().game(scenario, rng)
        job = self.home / "job.db"
        if told.wrong or rng.random() < 0.5:
            return told
        during: list[str] = []
        changes = rng.randint(1, 60)
        act = self._acting(scenario, rng, during) if rng.random() < 0.6 else None
        orders = {"pause_change": changes} if act else {"kill_change": changes} if rng.random() < 0.3 else {}
        before, self._during = self._outside(scenario), set()
        target = JOB if job.exists() else "{src}" if scenario.in_place else "{dst}"
        ended = self.run(scenario, ("undo", "--yes", target), act=act, **orders)
        told.codes.append(ended.code)
        told.kills += ended.code == removals.KILLED
        told.reached += len(during)
        told.orders.append(f"undo {orders} {'; '.join(during)} -> {ended.code}")
        told.wrong += self._changed_outside(scenario, before)
        told.wrong += [] if ended.code == removals.KILLED else said_badly(ended)
        told.wrong += [str(ended)] if told.wrong else []
        return told

    def _drawn(self, scenario: Scenario, rng: random.Random, job: removals.Words) -> removals.Words:
        words = super()._drawn(scenario, rng, job)
        begins = words[0] == "migrate" and not job and (self.home / RESULTS).is_symlink()
        # Another job would begin at the link.
        return ("status", self._target(scenario, job), "--check") if begins else words

    def _change(self, scenario: Scenario, rng: random.Random) -> str:
        root = self.home / ("source.zarr" if scenario.in_place else f"{RESULTS}/out.zarr")
        linked = [(away, place) for away, place in self._moved if place.is_symlink()]
        if linked and rng.random() < 0.5:
            away, place = linked[-1]
            self._moved.remove((away, place))
            place.unlink()
            if away.exists():
                away.rename(place)
                self._during.add(away.name)
            return f"put back {place.relative_to(self.home)}"
        place = self._place_to_link(scenario, root, rng)
        targets = [self.home / "elsewhere"]
        if place == root.parent:
            targets += [self.home / OTHERS]
        elif place == root or root in place.parents:
            below = place.relative_to(root)
            targets += [self.home / OTHERS / _root(scenario) / below, self.home / "source.zarr" / below]
        target = rng.choice([target for target in targets if target.is_dir() and target != place])
        away = self.home / f"away-{len(self._moved)}-{secrets.token_hex(2)}"
        if place.exists():
            place.rename(away)
            self._during.add(away.name)
        place.symlink_to(target, target_is_directory=True)
        self._moved.append((away, place))
        return f"link {place.relative_to(self.home)} to {target.relative_to(self.home)}"

    def _place_to_link(self, scenario: Scenario, root: Path, rng: random.Random) -> Path:
        """A directory that exists, or that is still to be made where its parent exists."""
        kind = rng.choice(["below", "below", "below", "root", "parent"])
        if not [*self.home.glob("*.db"), *root.parent.glob("*.db")]:
            kind = "below"  # a job may begin at a link
        if kind == "parent" and root.parent != self.home:
            return root.parent
        planned = [
            root / PurePosixPath(name).relative_to(_root(scenario))
            for name, data in self.calm(scenario).then.items()
            if data is None and name.startswith(f"{_root(scenario)}/")
        ]
        places = [
            place
            for place in planned
            if place.parent.is_dir() and place.parent.resolve() == place.parent and not place.is_symlink()
        ]
        return rng.choice(places) if kind == "below" and places else root

    def _changed_outside(self, scenario: Scenario, before: removals.Tree) -> list[str]:
        told = Told(scenario.id)
        ended = removals.Ended(words=(), code=removals.KILLED, out="", err="")
        self._judge(scenario, {}, ended, told, before)
        return told.wrong


def _root(scenario: Scenario) -> str:
    return "source.zarr" if scenario.in_place else "out.zarr"


if __name__ == "__main__":
    sys.exit(removals.main(Links, CHOSEN))
