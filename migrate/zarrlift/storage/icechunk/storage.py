"""An Icechunk repository as `Storage`: a version of it to read, or a branch to write to.

Writing goes to a branch of the job: `begin` commits the documents of all nodes, `checkpoint` what was written
since, and `publish` moves the branch that readers see. docs/design/decisions.md has the reasons.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarr.storage import MemoryStore, WrapperStore

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.version import __version__

from ...errors import JobError
from ..base import BESIDE, Storage
from ..redact import redact
from ..remote.error_text import plainly
from ..remote.event_loop import run
from ..remote.zarr_store import StoreStorage
from .place import MAIN, IcechunkPlace, icechunk_errors, require_icechunk
from .session import DOCUMENT, SessionStorage
from .work_branch import delete_work, undo_branch

if TYPE_CHECKING:
    from zarr.abc.store import Store

_WORK: Final = "zarrlift-"
"""Prefix of the branch on which a job works; its id follows."""


class IcechunkStorage(SessionStorage):
    """A version of a repository, read-only; or with `write` the branch of a job."""

    def __init__(
        self,
        place: IcechunkPlace | None,
        repository: Any = None,
        *,
        write: bool = False,
        parent: Storage | None = None,
    ) -> None:
        """`repository` is given instead of a place, or is opened; it is created by `begin` only.

        `parent` is the directory that the repository is in, where a job that writes claims it. UsageError for
        virtual chunks, which a `repository` may have with its own authorization.
        """
        self._place = place
        self._write_to = write
        self._repository = repository
        if repository is None and place is not None and (not write or place.exists()):
            self._repository = place.open_repository()
        self._session: Any = None
        self._job: str | None = None
        self._in_worker = False
        self._written: dict[str, bytes] = {}
        """Documents that the branch has."""
        self.uncommitted = 0
        self._open_writes = 0
        self._closed: asyncio.Event | None = None
        self._idle: asyncio.Event | None = None
        self._layers = _Current(self._latest())
        super().__init__(self._layers, url="icechunk")
        if place is None:
            self.url, self.in_process = f"icechunk repository {id(repository):x}", True
        else:
            self.url, self.in_process = place.versioned_url, False
        self.on_branch = write
        self._parent = parent or StoreStorage(MemoryStore())
        self.exclusive = write and self._parent.exclusive

    @property
    def local_path(self) -> Path | None:
        """The repository's directory, if it is local."""
        return Path(self._place.prefix) if self._place is not None and self._place.scheme == "file" else None

    @property
    def beside(self) -> Path | None:
        """Where the job file of a local repository lies, without its suffix: each branch has one."""
        return None if self._place is None else self._place.beside

    def claim_place(self) -> tuple[Storage, str]:
        name = "" if self._place is None else self._place.prefix.rpartition("/")[2]
        return self._parent, name + BESIDE

    # ----- the job's branch

    @property
    def _target(self) -> str:
        return (self._place.branch if self._place is not None else None) or MAIN

    @property
    def work_branch(self) -> str:
        """The branch on which the job works."""
        assert self._job is not None
        return f"{_WORK}{self._job}"

    def attach(self, job_id: str, *, worker: bool = False) -> None:
        """Read and write what a job has written so far; a `worker` commits what it writes by itself."""
        self._job = job_id
        self._in_worker = worker
        if self._repository is not None and self.work_branch in self._branches():
            if self._write_to:
                self._work()
            else:
                self._layers.current = self._repository.readonly_session(branch=self.work_branch).store
        elif worker:
            raise StorageError("the branch of the job is gone", found=f"{self.url}: {self.work_branch}")

    def begin(self, job_id: str, documents: Mapping[str, bytes], branch_state: str | None) -> str:
        """Start or continue the branch with the documents of all nodes, key -> content.

        `branch_state` is what this returned before: what `publish` and `undo` need to know.
        """
        self._job = job_id
        with icechunk_errors(self.url, "cannot write"):
            created = self._repository is None
            if created:
                assert self._place is not None
                version = self._place.spec_version
                self._repository = self._place.create_repository(spec_version=version)
            branches = self._branches()
            if branch_state is None:
                base, new = self._base(branches), self._target not in branches
                branch_state = json.dumps({"base": base, "created": created, "new_branch": new})
            state = json.loads(branch_state)
            if self.work_branch not in branches:
                self._repository.create_branch(self.work_branch, state["base"])
        self._work()
        self.put_many([(key, data) for key, data in documents.items() if self.get(key) != data])
        self._written = dict(documents)
        self.checkpoint()
        return branch_state

    def checkpoint(self) -> None:
        if self._session is not None:
            run(self._commit())

    def refresh(self) -> None:
        """The same, and read what workers of other processes have committed."""
        if self._session is not None:
            run(self._commit(reopen=True))

    def settle(self) -> None:
        """In a worker, whose coordinator does not see its session: the same."""
        if self._in_worker:
            self.checkpoint()

    def publish(self, branch_state: str) -> None:
        """Move the branch that readers see to the job's; JobError if it has moved since the job began."""
        self.checkpoint()
        base, target = json.loads(branch_state)["base"], self._target
        with icechunk_errors(self.url, "cannot move the branch", target):
            branches = self._branches()
            if self.work_branch not in branches:
                return  # an earlier run has moved it
            result = self._repository.lookup_branch(self.work_branch)
            tip = self._repository.lookup_branch(target) if target in branches else None
            if tip == result:
                return
            if tip is None:
                self._repository.create_branch(target, result)
                return
            if tip == base:
                icechunk = require_icechunk()
                try:
                    self._repository.reset_branch(target, result, from_snapshot_id=base)
                except icechunk.ConflictError:
                    tip = self._repository.lookup_branch(target)
                else:
                    return
        raise JobError(
            f"the branch {target} was changed by others while the job ran",
            key=self.url,
            found=f"snapshot {tip}",
            expected=f"snapshot {base}, where the job began",
            advice=f"Everything that was migrated is on the branch {self.work_branch}. Merge it with "
            "Icechunk, or undo the job and migrate again.",
        )

    def end(self) -> None:
        """Delete the job's branch after `publish`; readers see the other one."""
        with icechunk_errors(self.url, "cannot delete the branch", self.work_branch):
            delete_work(self._repository, self.work_branch)
            self._session = None
            self._layers.current = self._readonly(replace_branch=True)

    def undo(self, job_id: str, branch_state: str | None) -> bool:
        """Take back what a job did, but for the repository; False if others have changed the branch since."""
        self._job = job_id
        if self._repository is None:
            return True  # the job was stopped before it made one
        with icechunk_errors(self.url, "cannot undo"):
            return undo_branch(self._repository, self.work_branch, self._target, job_id, branch_state)

    # ----- sessions

    def _latest(self) -> Store:
        """What readers see; an empty store if there is no repository, or no such branch to write to."""
        if self._repository is None:
            return MemoryStore()
        if self._write_to and self._target not in self._branches():
            return MemoryStore()
        return self._readonly()

    def _readonly(self, *, replace_branch: bool = False) -> Store:
        place = self._place
        version: dict[str, str] = {"branch": MAIN}
        if place is not None and not replace_branch:
            if place.tag is not None:
                version = {"tag": place.tag}
            elif place.snapshot is not None:
                version = {"snapshot_id": place.snapshot}
        if "branch" in version:
            version["branch"] = self._target
        icechunk = require_icechunk()
        try:
            session = self._repository.readonly_session(**version)
        except icechunk.IcechunkError as error:
            wanted = MAIN if place is None else place.version
            branches = f"branches {', '.join(sorted(self._branches()))}"
            url = "the repository" if place is None else place.url
            raise UsageError(f"{url} has no {wanted}", expected=branches) from error
        if place is not None and not self._write_to:
            _refuse_virtual_chunks(session, place.url)
        store: Store = session.store
        return store

    def _base(self, branches: Iterable[str]) -> str:
        """Where the job begins: the branch that it will move, or the empty tree that every repository has."""
        if self._target in branches:
            return str(self._repository.lookup_branch(self._target))
        *_, first = self._repository.ancestry(branch=MAIN)
        return str(first.id)

    def _branches(self) -> set[str]:
        return set(self._repository.list_branches())

    def _work(self) -> None:
        with icechunk_errors(self.url, "cannot write", self.work_branch):
            self._session = self._repository.writable_session(self.work_branch)
        self._layers.current = self._session.store

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[None]:
        """Wait while a commit is under way: its session takes no more writes."""
        while self._closed is not None:
            await self._closed.wait()
        self._open_writes += 1
        try:
            yield
        finally:
            self._open_writes -= 1
            if not self._open_writes and self._idle is not None:
                self._idle.set()

    async def _commit(self, *, reopen: bool = False) -> None:
        while self._closed is not None:
            await self._closed.wait()
        self._closed = asyncio.Event()
        try:
            while self._open_writes:
                self._idle = asyncio.Event()
                await self._idle.wait()
            changed = self._session.has_uncommitted_changes
            if not changed and not reopen:
                return
            icechunk = require_icechunk()
            # The chunk of a repeated task has the same content, whoever writes it.
            solver = icechunk.BasicConflictSolver(on_chunk_conflict=icechunk.VersionSelection.UseOurs)
            message = (self._place.message if self._place is not None else None) or "Migrate to Zarr v3"
            metadata = {"zarrlift": __version__, "zarrlift_job": self._job}
            try:
                if changed:
                    await self._session.commit_async(message, metadata, rebase_with=solver)
                session = await self._repository.writable_session_async(self.work_branch)
            except Exception as error:
                raise plainly(error, "cannot commit", self.work_branch, self.url) from error
            self._session, self._layers.current, self.uncommitted = session, session.store, 0
        finally:
            closed, self._closed = self._closed, None
            closed.set()

    # ----- what differs from other stores

    async def store(self, key: str, data: bytes) -> None:
        """Write an object; nothing if the branch has the document already."""
        if self._written.get(key) == data:
            return
        async with self._writing():
            await super().store(key, data)
        self.uncommitted += 1
        if key.rpartition("/")[2] == DOCUMENT and self._job is not None:
            self._written[key] = data


def _refuse_virtual_chunks(session: Any, url: str) -> None:
    """Raise UsageError if a version has chunks in other places, which only Icechunk authorizes."""
    if not session.config.virtual_chunk_containers:
        return
    with icechunk_errors(url, "cannot read the references"):
        locations = session.all_virtual_chunk_locations()
    if locations:
        raise UsageError(
            "the repository has virtual chunks, which are in other places",
            found=f"{len(locations)} in {url}, the first in {redact(locations[0])}",
            expected="chunks in the repository",
            advice="If you trust these places, open the repository with icechunk and its"
            " authorize_virtual_chunk_access, and give the Repository itself.",
        )


class _Current(WrapperStore[Any]):
    """The store of the present session, which a commit replaces."""

    @property
    def current(self) -> Store:
        """The store of the session."""
        store: Store = self._store
        return store

    @current.setter
    def current(self, store: Store) -> None:
        self._store = store
