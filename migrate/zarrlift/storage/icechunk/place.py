"""Where an Icechunk repository lies, and how it is opened.

Icechunk 1.1 (Python 3.11) and 2.x: https://icechunk.io/en/stable/reference/. Options are those of fsspec's
packages, as for the stores of other places.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.paths import local_path

from ..local.system_errors import storage_error
from ..redact import redact, secrets_of
from ..remote.error_text import plainly

MAIN: Final = "main"
"""The branch that every repository has."""
_URL: Final = re.compile(r"icechunk(\+[a-z0-9]+)?://")
_SCHEMES: Final = {"": "file", "file": "file", "s3": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az"}
_FIRST: Final = "1CECHNKREP0F1RSTCMT0"
"""The snapshot with which every repository begins."""
_HALF_MADE: Final = re.compile(
    rf"(config\.yaml|(snapshots|transactions)/{_FIRST})(#\d+)?|(repo|refs/branch\.{MAIN}/ref\.json)#\d+"
)
"""Files of a repository that has no branch yet (1.1.21, 2.3.0); a partial file has a suffix such as "#1"."""
_VERSIONS: Final = ("branch", "tag", "snapshot")
_S3: Final = {
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "endpoint": "endpoint_url",
    "region": "region",
    "skip_signature": "anonymous",
    "request_payer": "requester_pays",
}
"""Names of `s3_settings` -> arguments of `icechunk.s3_storage`."""
_GOOGLE: Final = ("token",)
_AZURE: Final = {"account_name": "account", "account_key": "access_key", "sas_token": "sas_token"}


def is_icechunk_url(text: str) -> bool:
    """Whether a text is the URL of an Icechunk repository: `icechunk://` or `icechunk+s3://`."""
    return _URL.match(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class IcechunkPlace:
    """A repository, and the version of it that is meant."""

    url: str
    """The repository's URL without secrets and without the version."""
    scheme: str
    """Where it lies: file, s3, gs or az."""
    bucket: str = ""
    prefix: str = ""
    """Path in the bucket; of a local repository, its absolute path."""
    branch: str | None = None
    tag: str | None = None
    snapshot: str | None = None
    """At most one of the three is given; without, it is the branch `main`."""
    message: str | None = None
    """Of commits."""
    spec_version: int | None = None
    """The format of a repository that is created, 1 or 2; by default that of the package."""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, text: str, storage_options: Mapping[str, Any] | None = None) -> IcechunkPlace:
        """A URL such as `icechunk:///data/repo` or `icechunk+s3://bucket/repo?branch=dev`; UsageError.

        A path after `icechunk://` without a third slash is relative to the working directory. A version is
        `?branch=`, `?tag=` or `?snapshot=`, or one of these options; `message` and `spec_version` are options
        too.
        """
        match = _URL.match(text)
        scheme = None if match is None else _SCHEMES.get((match[1] or "").removeprefix("+"))
        if match is None or scheme is None:
            schemes = ", ".join(f"icechunk+{name}://" for name in _SCHEMES if name)
            raise UsageError("not the URL of an Icechunk repository", found=redact(text), expected=schemes)
        head = match[0]
        rest, _, query = text[len(head) :].partition("?")
        versions = dict(parse_qsl(query, keep_blank_values=True))
        options = dict(storage_options or {})
        versions |= {name: str(options.pop(name)) for name in _VERSIONS if options.get(name) is not None}
        if not versions.keys() <= set(_VERSIONS) or len(versions) > 1 or not all(versions.values()):
            expected = " or ".join(f"?{name}=NAME" for name in _VERSIONS)
            raise UsageError(
                "one version of the repository is wanted",
                found=", ".join(f"{name}={value}" for name, value in versions.items()),
                expected=expected,
            )
        message, spec_version = options.pop("message", None), options.pop("spec_version", None)
        if str(spec_version) not in ("None", "1", "2"):
            raise UsageError(
                "no such format of Icechunk", found=f"spec_version={spec_version}", expected="1 or 2"
            )
        if scheme == "file":
            if options:
                raise UsageError("storage options are for repositories in stores", found=redact(text))
            path = os.path.abspath(os.path.expanduser(local_path(unquote(rest))))
            place = cls(url=f"icechunk://{path}", scheme=scheme, prefix=path)
        else:
            parts = urlsplit(f"{scheme}://{rest}")
            if not parts.netloc or "@" in parts.netloc or not parts.path.strip("/"):
                expected = f"{head}BUCKET/PATH"
                raise UsageError(
                    "a repository needs a bucket and a path", found=redact(text), expected=expected
                )
            prefix = parts.path.strip("/")
            url = f"{head}{parts.netloc}/{prefix}"
            place = cls(url=url, scheme=scheme, bucket=parts.netloc, prefix=prefix, options=options)
        number = None if spec_version is None else int(spec_version)
        return replace(place, message=message, spec_version=number, **versions)  # type: ignore[arg-type]

    @property
    def version(self) -> str:
        """The version in words: `branch main`."""
        for name in _VERSIONS:
            if (value := getattr(self, name)) is not None:
                return f"{name} {value}"
        return f"branch {MAIN}"

    @property
    def versioned_url(self) -> str:
        """The URL with its version, as `parse` reads it."""
        for name in _VERSIONS:
            if (value := getattr(self, name)) is not None:
                return f"{self.url}?{name}={value}"
        return self.url

    @property
    def beside(self) -> Path | None:
        """A path next to a local repository, of this branch alone; None for one in a store."""
        if self.scheme != "file":
            return None
        path = Path(self.prefix)
        if self.branch in (None, MAIN):
            return path
        return path.with_name(f"{path.name}.{quote(self.branch or '', safe='')}")

    @property
    def parent(self) -> str:
        """The directory or prefix that the repository is in, as a place of its own."""
        above = self.prefix.rpartition("/")[0]
        return above or "/" if self.scheme == "file" else f"{self.scheme}://{self.bucket}/{above}".rstrip("/")

    def storage(self) -> Any:
        """An `icechunk.Storage`; UsageError for options that it does not have, or without the package."""
        icechunk = require_icechunk()
        secrets_of(self.options)  # so that no message of the library shows them
        match self.scheme:
            case "file":
                return icechunk.local_filesystem_storage(self.prefix)
            case "s3":
                return self._s3()
            case "gs":
                self._refuse_unknown(_GOOGLE)
                settings: dict[str, Any] = (
                    {"anonymous": True} if self.options.get("token") == "anon" else {"from_env": True}
                )
                token = self.options.get("token")
                if isinstance(token, str) and os.path.isfile(token):
                    settings = {"application_credentials": token}
                return icechunk.gcs_storage(bucket=self.bucket, prefix=self.prefix, **settings)
            case _:
                self._refuse_unknown(_AZURE)
                settings = {_AZURE[name]: value for name, value in self.options.items()}
                account = settings.pop("account", None) or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
                if account is None:
                    raise UsageError(
                        "a store on Azure needs the name of an account", expected="account_name=NAME"
                    )
                settings = settings or {"from_env": True}
                return icechunk.azure_storage(
                    account=account, container=self.bucket, prefix=self.prefix, **settings
                )

    def exists(self) -> bool:
        """Whether there is a repository; StorageError if that cannot be read."""
        icechunk = require_icechunk()
        if self.scheme == "file" and not os.path.isdir(self.prefix):
            return False  # Icechunk would make it
        with icechunk_errors(self.url):
            return bool(icechunk.Repository.exists(self.storage()))

    def open_repository(self) -> Any:
        """The `icechunk.Repository` that is there; UsageError without one, StorageError."""
        icechunk = require_icechunk()
        missing = UsageError(
            f"there is no Icechunk repository: {self.url}",
            advice="Correct the URL; as a destination it is made.",
        )
        if self.scheme == "file" and not os.path.isdir(self.prefix):
            raise missing  # Icechunk would make the directory
        try:
            with icechunk_errors(self.url):
                return icechunk.Repository.open(self.storage())
        except StorageError:
            if not self.exists():
                raise missing from None
            raise

    def create_repository(self, *, spec_version: int | None = None) -> Any:
        """A new `icechunk.Repository`; UsageError if there is one, StorageError.

        `spec_version` is its format, 1 or 2; Icechunk 1.x writes and reads 1.
        """
        icechunk = require_icechunk()
        arguments: dict[str, Any] = {}
        if self.exists():
            raise UsageError(f"there is an Icechunk repository already: {self.url}")
        if self.scheme == "file" and os.path.isdir(self.prefix):
            _remove_half_made(Path(self.prefix))
        if spec_version is not None:
            if major() > 1:
                arguments["spec_version"] = spec_version
            elif spec_version != 1:
                raise UsageError(
                    "Icechunk 1 writes format 1 only",
                    found=f"format {spec_version}",
                    advice="Python 3.12 or later has Icechunk 2.",
                )
        if self.scheme == "file":
            try:
                os.makedirs(self.prefix, exist_ok=True)  # Icechunk 1 panics if it cannot make the directory
            except OSError as error:
                raise storage_error("cannot write", self.url, error) from error
        with icechunk_errors(self.url):
            return icechunk.Repository.create(self.storage(), **arguments)

    def _s3(self) -> Any:
        from ..remote.obstore_s3 import s3_settings

        icechunk = require_icechunk()
        settings = s3_settings(self.options)
        if settings is None or self.options.get("profile"):
            names = ", ".join(sorted(self.options)) or "the settings of AWS in the environment"
            expected = "key, secret, token, endpoint_url, anon, requester_pays, client_kwargs"
            raise UsageError("these options cannot be given to Icechunk", found=names, expected=expected)
        arguments: dict[str, Any] = {_S3[name]: value for name, value in settings.items()}
        if "secret_access_key" not in arguments and not arguments.get("anonymous"):
            arguments["from_env"] = True
        if endpoint := arguments.get("endpoint_url"):
            arguments["allow_http"] = str(endpoint).startswith("http://")
            arguments["force_path_style"] = True
            arguments.setdefault("region", "us-east-1")
        return icechunk.s3_storage(bucket=self.bucket, prefix=self.prefix, **arguments)

    def _refuse_unknown(self, supported: Any) -> None:
        if unknown := sorted(self.options.keys() - set(supported)):
            raise UsageError(
                "these options cannot be given to Icechunk",
                found=", ".join(unknown),
                expected=", ".join(supported),
            )


def _remove_half_made(root: Path) -> None:
    """Remove what an interrupted creation of a repository has left; UsageError for anything else."""
    files = [path for path in root.rglob("*") if not path.is_dir() or path.is_symlink()]
    if not all(_HALF_MADE.fullmatch(path.relative_to(root).as_posix()) for path in files):
        raise UsageError("the directory of a new repository is not empty", found=str(root))
    for path in files:
        path.unlink()
    for path in sorted((path for path in root.rglob("*")), reverse=True):
        path.rmdir()


def require_icechunk() -> Any:
    """The package; UsageError that names the extra if it is not installed."""
    try:
        import icechunk
    except ImportError as error:
        raise no_icechunk() from error
    if not os.environ.get("ICECHUNK_LOG"):
        # It warns of concurrent commits at each opening of a local repository; the plan says that.
        icechunk.set_logs_filter("error")
    return icechunk


def no_icechunk() -> UsageError:
    """The error for a repository without the package."""
    return UsageError(
        "icechunk:// needs a package that is not installed",
        expected="icechunk",
        advice="Install it: pip install icechunk.",
    )


def major() -> int:
    """The major version of the installed package."""
    return int(require_icechunk().__version__.split(".")[0])


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
