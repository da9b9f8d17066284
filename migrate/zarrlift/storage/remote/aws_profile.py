"""Credentials, region and server of an AWS profile, found by botocore as in the AWS command line and s3fs.

These are `~/.aws/credentials` and `~/.aws/config` with their profiles, single sign-on, assumed roles and
programs, and the roles of containers and virtual machines. obstore itself reads only variables.

Source: the SDKs' reference (https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from zarrstack.core.errors import StorageError, UsageError
from zarrstack.core.similar_names import did_you_mean

from ..redact import redact_foreign, secrets_of

_FRESH: Final = timedelta(minutes=5)
"""Lifetime of credentials without an expiry time."""
_FILES: Final = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}
"""Variables that name the files of profiles, and their usual places."""
_SETTINGS: Final = (
    *("endpoint_url", "services", "ca_bundle", "use_dualstack", "use_fips"),
    *("addressing_style", "use_accelerate_endpoint"),
)
"""Starts of settings of S3 in the profile file, other than credentials and region."""
_UNTRANSLATED: Final = ("ca_bundle", "use_dualstack_endpoint", "use_fips_endpoint")
_S3_TRANSLATED: Final = {"addressing_style": ("path", "auto"), "use_accelerate_endpoint": ("false",)}
"""Settings of a profile's section `s3` that change where requests go, and the values that obstore does."""

_INVALID: Final = ("PartialCredentialsError", "ConfigParseError", "InvalidConfigError", "UnicodeDecodeError")
"""Names of errors about the content of the files."""


def has_settings() -> bool:
    """Whether the profile file seems to have settings of S3, besides credentials and region."""
    path = config_file()
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError):
        return path.exists()
    return any(word in text for word in _SETTINGS)


def config_file() -> Path:
    """The file of profiles without their keys."""
    return _path("AWS_CONFIG_FILE")


def _path(variable: str) -> Path:
    return Path(os.environ.get(variable) or _FILES[variable]).expanduser()


class AwsProfile:
    """A profile by name; without a name, that of `AWS_PROFILE` or the default one."""

    def __init__(self, name: str | None) -> None:
        """UsageError without such a profile; ImportError without botocore."""
        botocore = import_module("botocore.session")
        self._session: Any = botocore.Session(profile=name)
        self.name: str = name or self._session.get_config_variable("profile") or "default"
        with _plainly(self.name, self._session):
            self._settings: dict[str, Any] = self._session.get_scoped_config()

    def region(self) -> str | None:
        """The region, if the profile has one."""
        region: str | None = self._session.get_config_variable("region")
        return region

    def endpoint(self) -> str | None:
        """The URL of the server of S3, if the profile names one."""
        if not {"endpoint_url", "services"} & self._settings.keys():
            return None
        providers = import_module("botocore.configprovider")
        url: str | None = providers.ConfiguredEndpointProvider(
            full_config=self._session.full_config, scoped_config=self._settings, client_name="s3"
        ).provide()
        return url

    def untranslated(self, *, plain: bool) -> str | None:
        """The name of a setting that obstore does not support; `plain` HTTP needs no `ca_bundle`."""
        for name in _UNTRANSLATED:
            ignored = plain and name == "ca_bundle"
            if str(self._settings.get(name, "false")).lower() != "false" and not ignored:
                return name
        section = self._settings.get("s3")
        for name, supported in _S3_TRANSLATED.items():
            if isinstance(section, dict) and str(section.get(name, supported[0])).lower() not in supported:
                return name
        return None

    def credentials(self) -> Callable[[], dict[str, Any]] | None:
        """Provides the credentials, renewed where necessary, in the form of obstore; None if there are none.

        UsageError or StorageError if there are some that cannot be obtained, such as an expired sign-on.
        """
        with _plainly(self.name, self._session):
            credentials = self._session.get_credentials()
            if credentials is None:
                return None
            credentials.get_frozen_credentials()

        def provide() -> dict[str, Any]:
            with _plainly(self.name, self._session):
                frozen = credentials.get_frozen_credentials()
            provided = {
                "access_key_id": frozen.access_key,
                "secret_access_key": frozen.secret_key,
                "token": frozen.token,
            }
            secrets_of(provided)  # remembered, so that no message shows them
            return {**provided, "expires_at": datetime.now(UTC) + _FRESH}

        return provide


def no_credentials(place: str, profile: str | None) -> UsageError:
    """The error for a place for which no credentials are found; `profile` is None without botocore."""
    places = ["the storage options", "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"]
    if profile is not None:
        for variable, usual in _FILES.items():
            name = os.environ.get(variable) or usual
            exists = _path(variable).exists()
            places.append(f"{name} ({f'profile {profile}' if exists else 'no such file'})")
        disabled = os.environ.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
        instances = "" if disabled else " or virtual machine"
        places.append(f"the role of the container{instances}")
    public = "For a public bucket, give the storage option anon=true."
    install = " To read profiles and roles: pip install botocore." if profile is None else ""
    return UsageError(
        f"no credentials found for {place}: looked at {', '.join(places)}", advice=public + install
    )


@contextmanager
def _plainly(profile: str, session: Any) -> Iterator[None]:
    """Convert botocore's errors to errors of the profile."""
    try:
        yield
    except Exception as error:
        kind = type(error).__name__
        text = redact_foreign(" ".join(str(error).split()))
        if kind == "ProfileNotFound":
            names = _profiles(session)
            raise UsageError(
                f"there is no profile {profile!r} of AWS",
                found=", ".join(names) or "no profiles",
                advice=did_you_mean(profile, names) or "Check the storage option profile, or AWS_PROFILE.",
            ) from error
        if kind in _INVALID:
            raise UsageError(f"the profile {profile!r} of AWS is not valid", found=text) from error
        advice = "Check the profile, and the network."
        if "SSO" in kind or "Token" in kind:
            advice = f"Sign in again, for example with: aws sso login --profile {profile}"
        raise StorageError(
            f"the credentials of the profile {profile!r} of AWS cannot be obtained",
            found=f"{kind}: {text}",
            advice=advice,
        ) from error


def _profiles(session: Any) -> list[str]:
    try:
        return sorted(session.available_profiles)
    except Exception:  # noqa: BLE001 - they are only for a message
        return []
