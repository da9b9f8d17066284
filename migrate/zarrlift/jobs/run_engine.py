"""The engine of a run: opened when it is first needed, used to move chunks and to compare all values."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from typing import TYPE_CHECKING

from ..planning.plans import ArrayPlan, Plan
from ..recipe.options import VerifyLevel
from ..storage.base import Storage
from ..storage.local.storage import LocalStorage
from ..storage.silence import read_from
from ..transfer.executors.engine import Engine
from ..transfer.worker import Worker, WorkerSpec, give_up, move, sent
from .checks.checks import Checks
from .processes.executors import (
    RunOptions,
    TaskExecutor,
    engine_for,
    forks_for,
    in_pool,
    out_of_reach,
    own_pool,
    with_share,
    workers_for,
)

if TYPE_CHECKING:
    from ..verification.elsewhere import Elsewhere


class RunEngine:
    """What the options of a run select."""

    def __init__(
        self,
        plan: Plan,
        ends: tuple[Storage, Storage],
        options: RunOptions,
        spec: WorkerSpec | None,
    ) -> None:
        self._plan = plan
        self._ends = ends
        self.local = all(isinstance(end, LocalStorage) for end in ends)
        self._options = options
        self._spec = spec
        self._engine: Engine | None = None
        self.budget = options.budget(plan.recipe.memory)
        """Memory in bytes of all workers on this machine, or of each one elsewhere."""

    def tasks(self, arrays: list[ArrayPlan], worker: Worker) -> TaskExecutor:
        """What runs the tasks of some arrays; `worker` runs those in this process."""
        engine = self._open_engine(arrays)
        if engine is not None:
            if engine.in_process:
                return in_pool(engine, worker)
            if (spec := self._reporting()) is None:
                raise out_of_reach()
            limit = self._options.limit
            return TaskExecutor(
                engine=engine,
                call=lambda task: (move, *sent(with_share(spec, limit, engine), task)),
                give_up=self.give_up,
            )
        number = workers_for(arrays, self._options, self.budget, local=self.local)
        forks = forks_for(arrays, self._options, self.budget, local=self.local)
        return own_pool(worker, forks or number, forks=forks > 0)

    def checks(self, level: VerifyLevel, here: Checks) -> Checks:
        """The checks of a level: `here`, unless workers elsewhere compare every value."""
        workers = self.elsewhere() if level == "full" else None
        return here if workers is None else Checks(*self._ends, elsewhere=workers)

    def elsewhere(self) -> Elsewhere | None:
        """What reads all values of an array on workers elsewhere; None if there are none."""
        if not self._options.elsewhere or self._spec is None:
            return None
        from ..verification.elsewhere import Elsewhere

        engine = self._open_engine(list(self._plan.arrays))
        assert engine is not None
        budget = self._options.budget_of_one(self._plan.recipe.memory, engine)
        return Elsewhere(engine, with_share(self._spec, self._options.limit, engine), budget)

    def give_up(self) -> None:
        """End what workers elsewhere do for this run, as far as they can be reached."""
        if self._engine is not None and self._spec is not None:
            self._engine.give_up(give_up, *sent(self._spec.run))

    def _reporting(self) -> WorkerSpec | None:
        """The access of workers, which report servers that do not answer if they are on this machine."""
        if self._spec is None or self.local or self._options.on_other_machines:
            return self._spec
        folder = _folder_of_silences(self._spec)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        read_from(folder)
        return replace(self._spec, silences=folder)

    def close(self) -> None:
        """Release what was created for this run."""
        if self._spec is not None and not self.local:  # also what a killed run has left
            shutil.rmtree(_folder_of_silences(self._spec), ignore_errors=True)
        if self._engine is not None:
            self._engine.close()

    def _open_engine(self, arrays: list[ArrayPlan]) -> Engine | None:
        """The engine that the options ask for; None for threads or forks, which each pass creates."""
        if self._engine is None and self._options.executor not in (None, "threads"):
            self._engine = engine_for(arrays, self._options, self.budget, local=self.local)
        return self._engine


def _folder_of_silences(spec: WorkerSpec) -> str:
    """The folder in which workers of a job report servers that do not answer."""
    return os.path.join(tempfile.gettempdir(), f"zarrlift-{spec.job_id}")
