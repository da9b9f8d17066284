"""S3 without variables: the files of profiles, programs, single sign-on and roles, as botocore reads them.

`HOME` is a temporary folder in which a test writes `~/.aws`, and there are no variables of AWS.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tests.zarrlift.storage.conftest import files, in_s3

import zarrlift
from zarrlift.cli import main
from zarrlift.storage.open_storage import open_storage
from zarrlift.storage.redact import redact_foreign
from zarrlift.storage.remote import aws_profile
from zarrstack.core.errors import StorageError, UsageError

KEYS = "aws_access_key_id = AKIA-OF-A-FILE\naws_secret_access_key = hidden-in-a-file\n"
SIGN_ON = """
sso_start_url = https://example.awsapps.com/start
sso_region = eu-west-1
sso_account_id = 123456789012
sso_role_name = reader
"""


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    # The address of the service that gives roles to virtual machines is not on this machine.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))


@pytest.fixture
def aws(tmp_path: Path) -> Callable[..., None]:
    """Writes the files of `~/.aws`."""

    def write(**content: str) -> None:
        folder = tmp_path / "home/.aws"
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in content.items():
            (folder / name).write_text(text.replace("{folder}", str(folder)))

    return write


def signers(bucket: Any) -> list[str]:
    """Collects the key and the region with which requests to a bucket are signed."""
    found: list[str] = []

    def instead(request: web.Request) -> None:
        found.append(request.headers.get("Authorization", "").partition("Credential=")[2].split("/s3/")[0])

    bucket.instead = instead
    return found


@pytest.mark.slow(one_in=3)
@in_s3
def test_the_file_of_keys_suffices(bucket, archive: Path, aws, capsys) -> None:
    keys = (
        f"aws_access_key_id = {bucket.options['key']}\naws_secret_access_key = {bucket.options['secret']}\n"
    )
    aws(credentials=f"[default]\n{keys}")
    source = bucket.put("in", files(archive))
    assert main(["inspect", source, "--storage-options", f"endpoint_url={bucket.endpoint}"]) == 0
    assert "3 groups, 4 arrays." in capsys.readouterr().out


PROGRAM = json.dumps({"Version": 1, "AccessKeyId": "AKIA-OF-A-FILE", "SecretAccessKey": "hidden-in-a-file"})


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize(
    ("content", "options", "variables"),
    [
        pytest.param({"credentials": f"[default]\n{KEYS}"}, {}, {}, id="default"),
        pytest.param({"credentials": f"[lab]\n{KEYS}"}, {"profile": "lab"}, {}, id="option"),
        pytest.param({"credentials": f"[lab]\n{KEYS}"}, {}, {"AWS_PROFILE": "lab"}, id="variable"),
        pytest.param({"config": f"[profile lab]\n{KEYS}"}, {"profile": "lab"}, {}, id="in config"),
        pytest.param(
            {"credentials": f"[lab]\n{KEYS}"},
            {"profile": "lab"},
            {"AWS_ACCESS_KEY_ID": "another", "AWS_SECRET_ACCESS_KEY": "another"},
            id="rather than variables",
        ),
        pytest.param(
            {
                "program.json": PROGRAM,
                "config": "[default]\ncredential_process = cat {folder}/program.json\n",
            },
            {},
            {},
            id="program",
        ),
    ],
)
def test_a_profile_gives_the_keys(
    content, options, variables, our_bucket, archive: Path, aws, monkeypatch
) -> None:
    aws(**content)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    used = signers(our_bucket)
    source = our_bucket.put("in", files(archive))
    given = {"endpoint_url": our_bucket.endpoint, **options}
    found = zarrlift.inspect(open_storage(source, storage_options=given))
    assert "g/recode" in [node.path for node in found.nodes]
    assert {words.split("/")[0] for words in used} == {"AKIA-OF-A-FILE"}
    assert "hidden-in-a-file" not in redact_foreign("it was hidden-in-a-file")


@pytest.mark.slow(one_in=5)
@pytest.mark.parametrize(
    "config",
    [
        "endpoint_url = {}\n",
        "services = lab\n[services lab]\ns3 =\n  endpoint_url = {}\n",
        "endpoint_url = {}\nca_bundle = /x.pem\ns3 =\n  addressing_style = path\n",
    ],
    ids=["for all services", "for S3", "with settings that change nothing"],
)
@pytest.mark.parametrize("named", [False, True], ids=["keys in the file", "keys as options"])
def test_a_profile_gives_server_and_region(config: str, named, our_bucket, archive: Path, aws) -> None:
    text = "[default]\nregion = eu-north-1\n" + config.format(our_bucket.endpoint)
    aws(credentials="" if named else f"[default]\n{KEYS}", config=text)
    used = signers(our_bucket)
    source = our_bucket.put("in", files(archive))
    options = {"key": "k", "secret": "hidden-word"} if named else {}
    assert zarrlift.inspect(source, storage_options=options).nodes
    assert {(words.split("/")[0], words.split("/")[2]) for words in used} == {
        ("k" if named else "AKIA-OF-A-FILE", "eu-north-1")
    }


def test_a_container_gives_its_role(our_bucket, archive: Path, served, monkeypatch) -> None:
    role = {
        "AccessKeyId": "AKIA-OF-A-ROLE",
        "SecretAccessKey": "hidden-in-a-role",
        "Token": "token-of-a-role",
        "Expiration": "2999-01-01T00:00:00Z",
    }
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", served.put("role", json.dumps(role).encode()))
    used = signers(our_bucket)
    source = our_bucket.put("in", files(archive))
    assert zarrlift.inspect(source, storage_options={"endpoint_url": our_bucket.endpoint}).nodes
    assert {words.split("/")[0] for words in used} == {"AKIA-OF-A-ROLE"}


def test_an_expired_sign_on_says_how_to_sign_in(aws) -> None:
    aws(config=f"[profile lab]\n{SIGN_ON}")
    with pytest.raises(StorageError) as caught:
        open_storage("s3://bucket/a.zarr", storage_options={"profile": "lab"})
    assert "the credentials of the profile 'lab' of AWS cannot be obtained" in str(caught.value)
    assert str(caught.value).endswith("Sign in again, for example with: aws sso login --profile lab")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            {"credentials": f"[laboratory]\n{KEYS}"},
            {"profile": "labratory"},
            "there is no profile 'labratory' of AWS; found laboratory. Did you mean 'laboratory'?",
        ),
        ({}, {"profile": "lab"}, "there is no profile 'lab' of AWS; found no profiles."),
        (
            {"credentials": "[default]\naws_access_key_id = k\n"},
            {},
            "the profile 'default' of AWS is not valid; found Partial credentials",
        ),
        (
            {"credentials": "[default\n"},
            {},
            "the profile 'default' of AWS is not valid; found Unable",
        ),
    ],
)
def test_a_profile_that_cannot_be_used_is_named(content, options, message: str, aws, capsys) -> None:
    aws(**content)
    words = [text for name, value in options.items() for text in ("--storage-options", f"{name}={value}")]
    assert main(["inspect", "s3://bucket/a.zarr", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_without_credentials_the_error_names_the_places(aws, capsys) -> None:
    aws(config="[default]\nregion = eu-north-1\n")
    assert main(["inspect", "s3://bucket/a.zarr"]) == 2
    assert " ".join(capsys.readouterr().err.split()) == (
        "zarrlift: no credentials found for s3://bucket: looked at the storage options, AWS_ACCESS_KEY_ID and"
        " AWS_SECRET_ACCESS_KEY, ~/.aws/credentials (no such file), ~/.aws/config (profile default), the role"
        " of the container. For a public bucket, give the storage option anon=true."
    )


def test_without_botocore_the_error_says_what_reads_profiles(monkeypatch, aws) -> None:
    aws(credentials=f"[default]\n{KEYS}")

    def missing(_: str) -> Any:
        raise ImportError

    monkeypatch.setattr(aws_profile, "import_module", missing)
    with pytest.raises(UsageError, match=r"no credentials found for s3://bucket.*pip install botocore"):
        open_storage("s3://bucket/a.zarr")


@pytest.mark.parametrize(
    ("scheme", "name", "message"),
    [
        ("s3", "anno", "unknown storage option 'anno' for s3://. Did you mean 'anon'?"),
        ("s3", "endpoint_ur", "unknown storage option 'endpoint_ur' for s3://. Did you mean 'endpoint_url'?"),
        ("s3a", "profil", "unknown storage option 'profil' for s3a://. Did you mean 'profile'?"),
        ("gs", "tokn", "unknown storage option 'tokn' for gs://. Did you mean 'token'?"),
        ("az", "acount_name", "unknown storage option 'acount_name' for az://. Did you mean 'account_name'?"),
        ("az", "x", "unknown storage option 'x' for az://; expected account_key, account_name"),
    ],
)
def test_a_wrong_option_is_the_first_error(scheme: str, name: str, message: str, capsys) -> None:
    assert main(["inspect", f"{scheme}://bucket/a.zarr", "--storage-options", f"{name}=true"]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("config", "setting"),
    [
        ("[default]\nuse_fips_endpoint = true\n", "use_fips_endpoint"),
        ("[default]\ns3 =\n  addressing_style = virtual\n", "addressing_style"),
    ],
)
def test_a_setting_that_obstore_does_not_support_is_named(config: str, setting: str, aws) -> None:
    aws(credentials=f"[default]\n{KEYS}", config=config)
    with pytest.raises(UsageError, match=f"obstore does not support the setting {setting} of"):
        open_storage("s3://bucket/a.zarr")
