"""An Icechunk repository as `Storage`: its branch `main` to read, or a job's branch to write to.

Writing goes to a branch of the job: `begin` commits the documents of all nodes, `checkpoint` what was written
since, and `publish` moves `main`, which readers see. docs/design/0021 has the reasons.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from zarr.storage import MemoryStore, WrapperStore

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.paths import join
from zarrstack.version import __version__

from ...errors import JobError
from ..base import BESIDE, Storage
from ..redact import redact
from ..remote.error_text import plainly
from ..remote.event_loop import run
from ..remote.store_storage import StoreStorage
from .place import MAIN, IcechunkPlace, icechunk_errors, require_icechunk

if TYPE_CHECKING:
    from zarr.abc.store import Store

    from ..base import ListedPage
    from ..local.files import ReadLimit
    from ..versions import Version

_WORK: Final = "zarrlift-"
"""Prefix of the branch on which a job works; its id follows."""
_DOCUMENT: Final = "zarr.json"
_KEY: Final = re.compile(r"(.+/)?(zarr\.json|c(/[0-9]+)*)")
"""Keys that Icechunk may have: documents, and chunks in the default encoding. A node may be named `c` too."""


class SessionStorage(StoreStorage):
    """The nodes and chunks of a session.

    Found with Icechunk 1.1.21 and 2.3.0: a range that goes beyond the end of a document ends in a panic, the
    size of what is missing is 0, and keys that are not Zarr's are errors.
    """

    holds_consolidated = False

    async def read(self, place: str, limit: ReadLimit, version: Version | None) -> bytes | None:
        """Without a range: Icechunk fails for one that goes beyond a document's end (1.1.21, 2.3.0)."""
        size = await self.length(place)
        if size is None:
            return None
        limit.check(size)
        return await super().read_part(place, slice(None), version)

    async def read_part(self, place: str, part: slice, version: Version | None) -> bytes | None:
        """The part that there is; as for whole objects."""
        size = await self.length(place)
        if size is None:
            return None
        start, stop, _ = part.indices(size)
        return b"" if start >= stop else await super().read_part(place, slice(start, stop), version)

    async def length(self, place: str) -> int | None:
        """The size of an object; of what is missing Icechunk says 0, of other keys that they are wrong."""
        if _KEY.fullmatch(place) is None or not await self._store.exists(place):
            return None
        return await super().length(place)

    async def exists(self, place: str) -> bool:
        return await self.length(place) is not None

    async def pages(
        self, prefix: str, keys: Callable[[], Sequence[str]] | None = None
    ) -> AsyncIterator[ListedPage]:
        """All keys of a node; none if it is not there, which is an error for Icechunk."""
        node = prefix.strip("/")
        if not node or await self.exists(f"{node}/{_DOCUMENT}"):
            async for page in super().pages(prefix):
                yield page

    async def children(self, directory: str) -> Mapping[str, bool]:
        """Names below a group or array; none below the `c` of an array, which is not a node."""
        if "c" in directory.split("/") and not await self.exists(join(directory, _DOCUMENT)):
            return {}
        return {name: name != _DOCUMENT for name in await self.names(directory)}


class IcechunkStorage(SessionStorage):
    """The branch `main` of a repository, read-only; or with `write` the branch of a job."""

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
        """Number of objects written since the last `checkpoint`."""
        self._open_writes = 0
        self._closed: asyncio.Event | None = None
        self._idle: asyncio.Event | None = None
        self.url = f"icechunk repository {id(repository):x}" if place is None else place.url
        self._layers = _Current(self._latest())
        super().__init__(self._layers, url=self.url)
        self.in_process = place is None
        self.on_branch = write
        self._parent = parent or StoreStorage(MemoryStore())
        self.exclusive = write and self._parent.exclusive

    @property
    def local_path(self) -> Path | None:
        """The repository's directory, if it is local; the job file lies beside it."""
        return None if self._place is None else self._place.beside

    def claim_place(self) -> tuple[Storage, str]:
        name = "" if self._place is None else os.path.basename(self._place.prefix)
        return self._parent, name + BESIDE

    # ----- the job's branch

    @property
    def work_branch(self) -> str:
        """The branch on which the job works."""
        assert self._job is not None
        return f"{_WORK}{self._job}"

    def attach(self, job_id: str, *, worker: bool = False) -> None:
        """Read and write what a job has written so far; a `worker` commits what it writes by itself."""
        self._job = job_id
        self._in_worker = worker
        if self._repository is not None and self.work_branch in self._repository.list_branches():
            if self._write_to:
                self._work()
            else:
                self._layers.current = self._repository.readonly_session(branch=self.work_branch).store
        elif worker:
            raise StorageError("the branch of the job is gone", found=f"{self.url}: {self.work_branch}")

    def begin(self, job_id: str, documents: Mapping[str, bytes], base: str | None) -> str:
        """Start or continue the branch with the documents of all nodes, key -> content.

        `base` is what this returned before: the snapshot of `main` with which the branch begins.
        """
        self._job = job_id
        with icechunk_errors(self.url, "cannot write"):
            if self._repository is None:
                assert self._place is not None
                self._repository = self._place.create_repository()
            base = base or str(self._repository.lookup_branch(MAIN))
            if self.work_branch not in self._repository.list_branches():
                self._repository.create_branch(self.work_branch, base)
        self._work()
        self.put_many([(key, data) for key, data in documents.items() if self.get(key) != data])
        self._written = dict(documents)
        self.checkpoint()
        return base

    def checkpoint(self) -> None:
        """Make everything that was written last, so that it may be recorded as done; StorageError."""
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

    def publish(self, base: str) -> None:
        """Move `main` to the job's branch; JobError if it has moved since the job began."""
        self.checkpoint()
        with icechunk_errors(self.url, "cannot move the branch", MAIN):
            if self.work_branch not in self._repository.list_branches():
                return  # an earlier run has moved it
            result = self._repository.lookup_branch(self.work_branch)
            tip = self._repository.lookup_branch(MAIN)
            if tip == result:
                return
            if tip == base:
                icechunk = require_icechunk()
                try:
                    self._repository.reset_branch(MAIN, result, from_snapshot_id=base)
                except icechunk.ConflictError:
                    tip = self._repository.lookup_branch(MAIN)
                else:
                    return
        raise JobError(
            f"the branch {MAIN} was changed by others while the job ran",
            key=self.url,
            found=f"snapshot {tip}",
            expected=f"snapshot {base}, where the job began",
            advice=f"Everything that was migrated is on the branch {self.work_branch}. Merge it with "
            "Icechunk, or undo the job and migrate again.",
        )

    def end(self) -> None:
        """Delete the job's branch after `publish`; readers see `main`."""
        with icechunk_errors(self.url, "cannot delete the branch", self.work_branch):
            self._delete_work()
            self._session = None
            self._layers.current = self._latest()

    def undo(self, job_id: str, base: str | None) -> bool:
        """Delete the job's branch, and reset `main` if it is still the job's; else False."""
        self._job = job_id
        if self._repository is None:
            return True  # the job was stopped before it made one
        with icechunk_errors(self.url, "cannot undo"):
            self._delete_work()
            tip = self._repository.lookup_branch(MAIN)
            if base in (None, tip):
                return True
            info = next(iter(self._repository.ancestry(snapshot_id=tip)))
            if info.metadata.get("zarrlift_job") != job_id:
                return False
            self._repository.reset_branch(MAIN, base, from_snapshot_id=tip)
            return True

    def _delete_work(self) -> None:
        if self.work_branch in self._repository.list_branches():
            self._repository.delete_branch(self.work_branch)

    # ----- sessions

    def _latest(self) -> Store:
        """What readers see; an empty store if there is no repository."""
        if self._repository is None:
            return MemoryStore()
        with icechunk_errors(self.url):
            session = self._repository.readonly_session(branch=MAIN)
        if self._place is not None and not self._write_to:
            _refuse_virtual_chunks(session, self.url)
        store: Store = session.store
        return store

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
            metadata = {"zarrlift": __version__, "zarrlift_job": self._job}
            try:
                if changed:
                    await self._session.commit_async("Migrate to Zarr v3", metadata, rebase_with=solver)
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
        if key.rpartition("/")[2] == _DOCUMENT and self._job is not None:
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
