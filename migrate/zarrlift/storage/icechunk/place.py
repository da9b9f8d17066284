"""Where an Icechunk repository is, and how it is opened.

Icechunk 1.1 (Python 3.11) and 2.x: https://icechunk.io/en/stable/reference/. Other stores, credentials and
versions are Icechunk's own: the user opens a repository or session with them, and gives that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import StorageError, UsageError

from ...core.node_paths import local_path
from ..local.files import storage_error
from ..redact import redact
from ..remote.error_text import plainly

MAIN: Final = "main"
"""The branch that every repository has, and the one that is read and written."""
_URL: Final = re.compile(r"icechunk(\+[a-z0-9]+)?://")
_S3: Final = re.compile(r"icechunk\+s3://(?P<bucket>[^/@?#]+)/+(?P<prefix>[^?#]*[^/?#])/*")
_LOCAL: Final = re.compile(r"icechunk://(?P<path>[^?]+)", re.DOTALL)
_FIRST: Final = "1CECHNKREP0F1RSTCMT0"
"""The snapshot with which every repository begins."""
_HALF_MADE: Final = re.compile(
    rf"(config\.yaml|(snapshots|transactions)/{_FIRST})(#\d+)?|(repo|refs/branch\.{MAIN}/ref\.json)#\d+"
)
"""Files of a repository that has no branch yet (1.1.21, 2.3.0); a partial file has a suffix such as "#1"."""


def is_icechunk_url(text: str) -> bool:
    """Whether a text is the URL of an Icechunk repository: `icechunk://` or `icechunk+s3://`."""
    return _URL.match(text) is not None


@dataclass(frozen=True, slots=True)
class IcechunkPlace:
    """A repository in a directory or in a bucket of S3."""

    url: str
    prefix: str
    """Path in the bucket; of a local repository, its absolute path."""
    bucket: str | None = None
    """None for a local repository."""

    @classmethod
    def parse(cls, text: str, storage_options: Mapping[str, Any] | None = None) -> IcechunkPlace:
        """`icechunk:///data/repo`, or `icechunk+s3://bucket/repo`; UsageError.

        A path after `icechunk://` without a third slash is relative to the working directory.
        """
        if storage_options:
            raise UsageError(
                "storage options are not for Icechunk, which takes credentials of the environment",
                found=redact(text),
                advice="Open the repository with icechunk, and give the Repository itself.",
            )
        if (local := _LOCAL.fullmatch(text)) is not None:
            path = os.path.abspath(os.path.expanduser(local_path(local["path"])))
            return cls(f"icechunk://{path}", path)
        if (stored := _S3.fullmatch(text)) is not None:
            bucket, prefix = stored["bucket"], stored["prefix"]
            return cls(f"icechunk+s3://{bucket}/{prefix}", prefix, bucket)
        raise UsageError(
            "not the URL of an Icechunk repository",
            found=redact(text),
            expected="icechunk:///PATH, or icechunk+s3://BUCKET/PATH",
            advice="For another store, open the repository with icechunk, and give the Repository itself; for"
            " another branch, a tag or a snapshot, give a session of it.",
        )

    @property
    def beside(self) -> Path | None:
        """The path of a local repository; None for one in a store."""
        return None if self.bucket else Path(self.prefix)

    @property
    def parent(self) -> str:
        """The directory or prefix that the repository is in, as a place of its own."""
        if not self.bucket:
            return os.path.dirname(self.prefix)
        return f"s3://{self.bucket}/{self.prefix.rpartition('/')[0]}".rstrip("/")

    def exists(self) -> bool:
        """Whether there is a repository; StorageError if that cannot be read."""
        icechunk = require_icechunk()
        if not self.bucket and not os.path.isdir(self.prefix):
            return False  # Icechunk would make it
        with icechunk_errors(self.url):
            return bool(icechunk.Repository.exists(self._storage()))

    def open_repository(self) -> Any:
        """The `icechunk.Repository` that is there; UsageError without one, StorageError."""
        icechunk = require_icechunk()
        missing = UsageError(
            f"there is no Icechunk repository: {self.url}",
            advice="Correct the URL; as a destination it is made.",
        )
        if not self.bucket and not os.path.isdir(self.prefix):
            raise missing  # Icechunk would make the directory
        try:
            with icechunk_errors(self.url):
                return icechunk.Repository.open(self._storage())
        except StorageError:
            if not self.exists():
                raise missing from None
            raise

    def create_repository(self) -> Any:
        """A new `icechunk.Repository`; UsageError if there is something, StorageError."""
        icechunk = require_icechunk()
        if self.beside is not None:
            _remove_half_made(self.beside)
            try:
                os.makedirs(self.prefix, exist_ok=True)  # Icechunk 1 panics if it cannot make the directory
            except OSError as error:
                raise storage_error("cannot write", self.url, error) from error
        with icechunk_errors(self.url):
            return icechunk.Repository.create(self._storage())

    def _storage(self) -> Any:
        icechunk = require_icechunk()
        if not self.bucket:
            return icechunk.local_filesystem_storage(self.prefix)
        get = os.environ.get
        arguments: dict[str, Any] = {"region": get("AWS_REGION") or get("AWS_DEFAULT_REGION")}
        if endpoint := get("AWS_ENDPOINT_URL_S3") or get("AWS_ENDPOINT_URL"):
            arguments = {
                "region": arguments["region"] or "us-east-1",
                "endpoint_url": endpoint,
                "allow_http": endpoint.startswith("http://"),
                "force_path_style": True,
            }
        return icechunk.s3_storage(bucket=self.bucket, prefix=self.prefix, from_env=True, **arguments)


def _remove_half_made(root: Path) -> None:
    """Remove what a killed creation of a repository has left; UsageError for anything else."""
    entries = list(root.rglob("*"))
    files = [path for path in entries if not path.is_dir() or path.is_symlink()]
    if not all(_HALF_MADE.fullmatch(path.relative_to(root).as_posix()) for path in files):
        raise UsageError("the directory of a new repository is not empty", found=str(root))
    for path in files:
        path.unlink()
    for path in sorted(set(entries).difference(files), reverse=True):
        path.rmdir()


def require_icechunk() -> Any:
    """The package; UsageError that names the extra if it is not installed."""
    try:
        import icechunk
    except ImportError as error:
        raise UsageError(
            "icechunk:// needs a package that is not installed",
            expected="icechunk",
            advice="Install it: pip install icechunk.",
        ) from error
    if not os.environ.get("ICECHUNK_LOG"):
        # It warns of concurrent commits at each opening of a local repository; the plan says that.
        icechunk.set_logs_filter("error")
    return icechunk


@contextmanager
def icechunk_errors(
    url: str, what: str = "the Icechunk repository cannot be opened", key: str | None = None
) -> Iterator[None]:
    """Raise errors of the package in this context as StorageError, without secrets."""
    icechunk = require_icechunk()
    try:
        yield
    except (icechunk.IcechunkError, icechunk.ConflictError) as error:  # 1.x: the second is none of the first
        raise plainly(error, what, key or url, url) from error
    except BaseException as error:
        # Icechunk 1 panics if it cannot make or read its directory; the type is only known by its name.
        if type(error).__name__ != "PanicException":
            raise
        raise plainly(error, what, key or url, url) from error
