"""Which redirects of a web server are followed, so that no server leads requests into the user's network.

A public server may answer any request with a redirect to a host that only this machine reaches, whose answer
would become part of the result. Names are resolved once: the addresses that are checked here are those that
aiohttp connects to. Behind a proxy nothing is resolved, so that only names and literal addresses are checked.

Sources: RFC 9110, 15.4 (redirection); the registries of special addresses that `ipaddress` follows; aiohttp
3.14, which asks its tracers before it follows a redirect, and its resolver for every name that is no address.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from zarrstack.core.errors import StorageError

from ..redact import redact

if TYPE_CHECKING:
    from aiohttp import ClientSession, TraceRequestRedirectParams
    from yarl import URL

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_KEPT: Final = frozenset({"accept", "accept-encoding", "range", "user-agent"})
"""Headers that another host is sent. Others may be secrets of the user."""
_LOCAL: Final = ("localhost", "local", "internal", "lan", "home.arpa")
"""Ends of names that no public name server knows (RFC 6761, 6762, 8375, and ICANN's `internal`)."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses whose last four bytes are the address that is reached (RFC 6052)."""


async def guarded_session(*, loop: Any = None, **options: Any) -> ClientSession:
    """Make the session of fsspec's file system for HTTP (its option `get_client`), with checked redirects."""
    import aiohttp

    guard = _Guard()
    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(guard.check)
    if (user := options.pop("auth", None)) is not None:  # which aiohttp would send to every host
        options["headers"] = {**(options.get("headers") or {}), "Authorization": user.encode()}
    if "connector" not in options:
        options["connector"] = aiohttp.TCPConnector(resolver=guard.resolver())
    traces = [*options.pop("trace_configs", ()), trace]
    return aiohttp.ClientSession(loop=loop, trace_configs=traces, **options)


def guarded(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of fsspec's file system for HTTP, with checked redirects unless they name a client."""
    return {"get_client": guarded_session, **options}


class _Guard:
    """What one session knows of the hosts that it asks."""

    def __init__(self) -> None:
        self._addresses: dict[str, list[Address]] = {}
        """Those that each name was resolved to; a name behind a proxy is not here."""
        self._redirected: dict[str, str] = {}
        """Name of another host that a redirect led to -> the redirect."""

    def resolver(self) -> Any:
        """Aiohttp's resolver, which refuses addresses that a redirect must not lead to."""
        from aiohttp.abc import AbstractResolver
        from aiohttp.resolver import ThreadedResolver

        guard = self

        class Resolver(AbstractResolver):
            def __init__(self) -> None:
                self._names = ThreadedResolver()

            async def resolve(
                self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
            ) -> Any:
                results = await self._names.resolve(host, port, family)
                addresses = [ipaddress.ip_address(each["host"].partition("%")[0]) for each in results]
                guard.note(host, addresses)
                return results

            async def close(self) -> None:
                await self._names.close()

        return Resolver()

    def note(self, host: str, addresses: list[Address]) -> None:
        """Record the addresses of a name; StorageError if a redirect led to it and one is not public."""
        self._addresses[host] = addresses
        led = self._redirected.get(host)
        private = next((each for each in addresses if not is_public(each)), None)
        if led is not None and private is not None:
            raise _refused(led, f"{host} is {private}, which is not a public address")

    async def check(self, _session: Any, _context: Any, request: TraceRequestRedirectParams) -> None:
        """Raise StorageError for a redirect that is not followed; to other hosts send no secrets."""
        from yarl import URL

        before = request.url
        location = request.response.headers.get("Location") or request.response.headers.get("URI")
        if location is None:
            return  # aiohttp follows nothing
        try:
            after = before.join(URL(location))
            same = (after.host, after.port) == (before.host, before.port)
        except ValueError as error:
            raise _refused(redact(f"{before} -> {location}"), "this is not a URL") from error
        led = redact(f"{before} -> {after}")
        if after.scheme not in ("http", "https"):
            raise _refused(led, f"{after.scheme!r} is another protocol")
        if before.scheme == "https" and after.scheme == "http":
            raise _refused(led, "the answer would not be encrypted")
        encrypts = after.host == before.host and (before.scheme, after.scheme) == ("http", "https")
        if encrypts or (same and after.scheme == before.scheme):
            return
        if after.scheme != "https":
            raise _refused(led, "another host is asked over https only")
        if (reason := self._private(before)) is not None:
            raise _refused(led, f"{reason}: such a server may not name others")
        if (reason := self._private(after, resolved=False)) is not None:
            raise _refused(led, reason)
        self._redirected[str(after.host)] = led
        for name in {name for name in request.headers if name.lower() not in _KEPT}:
            request.headers.popall(name, None)

    def _private(self, url: URL, *, resolved: bool = True) -> str | None:
        """Why the host of a URL is not public; None if it is, or if only its address could tell."""
        host = url.host or ""
        literal = _literal(host)
        if literal is None and (
            "." not in host or any(f".{host.rstrip('.')}".endswith(f".{end}") for end in _LOCAL)
        ):
            return f"{host} is a name of a local network"
        addresses = self._addresses.get(host, []) if resolved else []
        for address in [literal] if literal is not None else addresses:
            if not is_public(address):
                return f"{host} is {address}, which is not a public address"
        return None


def _literal(host: str) -> Address | None:
    """The address that a host states, also in the short forms that systems accept; None for a name."""
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host.rstrip(".")))
    except OSError:
        return None


def is_public(address: Address) -> bool:
    """Whether the whole internet can reach an address, and not only this machine or its network."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def _refused(led: str, reason: str) -> StorageError:
    return StorageError(
        "the server redirects to a place that it may not name",
        found=f"{led}; {reason}",
        expected="the same host and port, or from a public host to another one over https",
        advice="If you trust that place, give its URL as the source.",
    )
