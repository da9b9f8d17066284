"""Redirects of web servers: which are followed, and what another host is sent."""

from __future__ import annotations

import asyncio
import http.server
import ipaddress
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import zarr
from multidict import CIMultiDict
from tests.support.web_servers import serving
from yarl import URL

import zarrlift
from zarrlift.storage.remote.redirects import _Guard, is_public
from zarrstack.core.errors import StorageError

VALUES = np.arange(1, 5, dtype="i4")


class Redirecting:
    """A web server of a folder; a path in `moved` is redirected."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.moved: dict[str, str] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def handler(self) -> Any:
        site = self

        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args, directory=str(site.folder))

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.path = URL(self.path).path  # a proxy is given the whole URL
                site.asked.append((self.path, dict(self.headers)))
                if (location := site.moved.get(self.path)) is None:
                    super().do_GET()
                    return
                self.send_response(302)
                self.send_header("Location", location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_GET

        return Handler


@pytest.fixture
def site(tmp_path: Path) -> Redirecting:
    folder = tmp_path / "site"
    group = zarr.open_group(folder / "a.zarr", mode="w", zarr_format=2)
    group.create_array("x", data=VALUES, chunks=(2,), compressors=None)
    zarr.consolidate_metadata(folder / "a.zarr", zarr_format=2)
    return Redirecting(folder)


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[tuple[Redirecting, str]]:
    """A private service, whose answer has the length of a chunk."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "secret").write_bytes(b"SECRET!!")
    private = Redirecting(tmp_path / "private")
    with serving(private.handler()) as url:
        yield private, f"{url}/secret"


def migrated(source: str, tmp_path: Path, **options: Any) -> zarrlift.Outcome:
    return zarrlift.migrate(source, tmp_path / "out.zarr", **options)


@pytest.mark.parametrize("status", ["chunk", "document", "consolidated"])
@pytest.mark.parametrize("way", ["another port", "another name"])
def test_a_redirect_to_a_private_service_is_refused_and_not_requested(
    way: str, status: str, site: Redirecting, secret: tuple[Redirecting, str], tmp_path: Path
) -> None:
    private, target = secret
    target = target if way == "another port" else target.replace("127.0.0.1", "localhost")
    path = {"chunk": "x/1", "document": "x/.zarray", "consolidated": ".zmetadata"}[status]
    site.moved[f"/a.zarr/{path}"] = target
    with serving(site.handler()) as url:
        source = f"{url}/a.zarr"
        try:
            problems = [*migrated(source, tmp_path).problems]
        except StorageError as error:
            problems = [error.problem]
        text = " ".join(map(str, problems))
    if status != "document":  # which the consolidated metadata make unnecessary
        assert f"/a.zarr/{path} -> {target}" in text
        assert not (tmp_path / "out.zarr/x/zarr.json").exists()
    assert private.asked == []


def test_a_redirect_on_the_same_host_and_port_is_followed(site: Redirecting, tmp_path: Path) -> None:
    (site.folder / "elsewhere").write_bytes((site.folder / "a.zarr/x/1").read_bytes())
    site.moved["/a.zarr/x/1"] = "/elsewhere"
    with serving(site.handler()) as url:
        assert migrated(f"{url}/a.zarr", tmp_path).ok
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr/x", mode="r")[:], VALUES)


def test_a_file_in_a_chain_is_read_with_the_same_rule(
    site: Redirecting, secret: tuple[Redirecting, str], tmp_path: Path
) -> None:
    private, target = secret
    site.moved["/a.zip"] = target
    with serving(site.handler()) as url:
        for place in (f"zip::{url}/a.zip", f"simplecache::{url}/a.zip", f"zip://x::simplecache::{url}/a.zip"):
            with pytest.raises(zarrlift.Error):
                zarrlift.inspect(place)
    assert private.asked == []


@pytest.mark.parametrize("host", ["10.0.0.1", "2130706433", "localhost", "printer", "metadata.internal"])
def test_behind_a_proxy_names_and_literal_addresses_are_checked(
    host: str, site: Redirecting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.moved["/a.zarr/x/1"] = f"https://{host}/secret"
    with serving(site.handler()) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.setenv("https_proxy", proxy)
        options = {"client_kwargs": {"trust_env": True}}
        outcome = migrated("http://archive.example/a.zarr", tmp_path, storage_options=options)
    (problem,) = outcome.problems
    assert f"http://archive.example/a.zarr/x/1 -> https://{host}/secret" in str(problem)
    assert problem.node == "x"


# The rule, hop by hop


class Hop:
    """A redirect that a guard is asked about, from hosts with these addresses."""

    def __init__(self, before: str, location: str, **addresses: str) -> None:
        self.guard = _Guard()
        for name, address in addresses.items():
            self.guard.note(name.replace("_", "."), [ipaddress.ip_address(address)])
        self.headers = CIMultiDict({
            "Authorization": "Basic x", "X-Key": "y", "Cookie": "z",
            "Range": "bytes=0-1", "Accept": "*/*",
        })  # fmt: skip
        response = SimpleNamespace(headers={"Location": location})
        self.request: Any = SimpleNamespace(url=URL(before), headers=self.headers, response=response)

    def check(self) -> None:
        asyncio.run(self.guard.check(None, None, self.request))


PUBLIC = {"a_org": "93.184.216.34", "b_org": "151.101.1.69"}


@pytest.mark.parametrize(
    ("before", "location"),
    [
        ("http://a.org/x", "http://a.org/y"),
        ("http://a.org/x", "/y"),
        ("http://a.org/x", "https://a.org/y"),
        ("https://a.org:8443/x", "https://a.org:8443/y"),
        ("http://127.0.0.1:80/x", "http://127.0.0.1/y"),
    ],
)
def test_the_same_host_keeps_what_it_is_sent(before: str, location: str) -> None:
    hop = Hop(before, location, **PUBLIC)
    hop.check()
    assert "X-Key" in hop.headers


@pytest.mark.parametrize("before", ["https://a.org/x", "http://a.org/x"])
def test_another_public_host_is_asked_without_secrets(before: str) -> None:
    hop = Hop(before, "https://b.org/x?signed=1", **PUBLIC)
    hop.check()
    assert {*hop.headers} == {"Range", "Accept"}
    hop.guard.note("b.org", [ipaddress.ip_address(PUBLIC["b_org"])])
    # Between the check of the name and the connection, its address has changed.
    with pytest.raises(StorageError, match=r"b\.org is 10\.0\.0\.1, .* not a public address"):
        hop.guard.note("b.org", [ipaddress.ip_address("10.0.0.1")])


@pytest.mark.parametrize(
    ("before", "location"),
    [
        ("https://a.org/x", "http://a.org/x"),
        ("https://a.org/x", "http://b.org/x"),
        ("http://a.org/x", "http://b.org/x"),
        ("http://a.org/x", "http://a.org:8080/x"),
        ("https://inner.org/x", "https://b.org/x"),
        ("https://10.0.0.1/x", "https://b.org/x"),
        ("https://a.org/x", "file:///etc/passwd"),
        *(
            ("https://a.org/x", f"https://{host}/x")
            for host in (
                *("127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
                *("[::1]", "[fe80::1]", "[fc00::1]"),
                *("[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:7f00:1::]"),
                *("2130706433", "127.1", "0x7f000001", "localhost", "localhost.", "a.localhost", "nas.local"),
            )
        ),
    ],
)
def test_what_is_refused_is_named_with_both_urls(before: str, location: str) -> None:
    with pytest.raises(StorageError) as caught:
        Hop(before, location, inner_org="10.0.0.7", **PUBLIC).check()
    found = str(caught.value.problem.found)
    assert found.startswith(f"{before} -> ")
    assert str(URL(location).host or "/etc/passwd") in found


def test_secrets_of_urls_are_not_shown() -> None:
    with pytest.raises(StorageError) as caught:
        Hop("https://me:word@a.org/x?sig=word", "https://10.0.0.1/x?sig=word", **PUBLIC).check()
    assert "word" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "public"),
    [("8.8.8.8", True), ("2606:4700::1111", True), ("224.0.0.1", False), ("::ffff:8.8.8.8", True)],
)
def test_public_addresses(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public
