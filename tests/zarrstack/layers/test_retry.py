"""`Retry`: what may pass is repeated after growing delays; what will not, fails at once."""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fake_clock import FakeClock
from tests.support.stores import PROTOTYPE
from zarr.buffer import cpu
from zarr.storage import MemoryStore

from zarrstack.base.descend import serves_sync
from zarrstack.base.stack import stack
from zarrstack.base.transformer import StorageTransformer
from zarrstack.core.errors import StorageError, UsageError
from zarrstack.layers import retry
from zarrstack.layers.retry import Retry
from zarrstack.system import transient_errors


@pytest.fixture(autouse=True)
def chance(monkeypatch):
    """No delay is shortened, unless a test says otherwise."""
    monkeypatch.setattr(retry.random, "random", lambda: 0.0)


class Failing(StorageTransformer):
    """Each operation fails with the next of `errors`, until there are none left."""

    name = "failing"
    awaits_only_below = True

    def __init__(self, store=None, *, errors=()):
        super().__init__(store)
        self.errors = list(errors)
        self.calls = 0

    def fail(self):
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)

    async def get(self, key, prototype, byte_range=None):
        self.fail()
        return await super().get(key, prototype, byte_range)

    async def set(self, key, value):
        self.fail()
        await super().set(key, value)

    async def delete(self, key):
        self.fail()
        await super().delete(key)

    async def list_prefix(self, prefix):
        async for key in super().list_prefix(prefix):
            self.fail()
            yield key


def over(*errors, memory=None, **options):
    """A retrying layer over a store that fails with these errors first, and its clock."""
    clock = FakeClock()
    values = {"a": cpu.Buffer.from_bytes(b"1")} if memory is None else memory
    return stack(MemoryStore(values), Retry(clock=clock, **options), Failing(errors=errors)), clock


# -- which errors may pass -----------------------------------------------------------------------


def of(module, name, **fields):
    """An error as a library would raise it: by the names of its module and class, and its fields."""
    bases = fields.pop("bases", (Exception,))
    error = type(name, bases, {"__module__": module})("it failed")
    for field, value in fields.items():
        setattr(error, field, value)
    return error


def client_error(status, code="", headers=None):
    answer = {"HTTPStatusCode": status, "HTTPHeaders": headers or {}}
    response = {"Error": {"Code": code}, "ResponseMetadata": answer}
    return of("botocore.exceptions", "ClientError", response=response)


def caused(error, cause):
    error.__cause__ = cause
    return error


def certificate_error():
    connector = type("ClientConnectionError", (Exception,), {"__module__": "aiohttp.client_exceptions"})
    return of("aiohttp.client_exceptions", "ClientConnectorCertificateError", bases=(connector,))


PASSING = {
    "a reset connection": ConnectionResetError(errno.ECONNRESET, "reset"),
    "a timeout": TimeoutError(),
    "a broken pipe": BrokenPipeError(errno.EPIPE, "pipe"),
    "a stale NFS handle": OSError(errno.ESTALE, "stale"),
    "a name server that is busy": socket.gaierror(socket.EAI_AGAIN, "again"),
    "half an answer": asyncio.IncompleteReadError(b"", 10),
    "aiohttp 429": of("aiohttp.client_exceptions", "ClientResponseError", status=429),
    "aiohttp 503": of("aiohttp.client_exceptions", "ClientResponseError", status=503),
    "aiohttp: the server hung up": of(
        "aiohttp.client_exceptions",
        "ServerDisconnectedError",
        bases=(type("ClientConnectionError", (Exception,), {"__module__": "aiohttp.client_exceptions"}),),
    ),
    "aiohttp: half a payload": of("aiohttp.client_exceptions", "ClientPayloadError"),
    "botocore SlowDown": client_error(503, "SlowDown"),
    "botocore code with a strange status": client_error(400, "RequestTimeout"),
    "botocore 500": client_error(500, "InternalError"),
    "botocore: read timeout": of("botocore.exceptions", "ReadTimeoutError"),
    "s3fs makes EBUSY of 503": caused(OSError(errno.EBUSY, "slow down"), client_error(503, "SlowDown")),
    "s3fs makes EINVAL of a 400": caused(OSError(errno.EINVAL, "?"), client_error(400, "RequestTimeout")),
    "gcsfs 429": of("gcsfs.retry", "HttpError", code=429),
    "gcsfs 503 as text": of("gcsfs.retry", "HttpError", code="503"),
    "azure 503": of("azure.core.exceptions", "HttpResponseError", status_code=503, error_code="ServerBusy"),
    "requests 502": of("requests.exceptions", "HTTPError", response=type("R", (), {"status_code": 502})()),
    "one of ours with such a cause": caused(StorageError("cannot read"), TimeoutError()),
    "a group of such": ExceptionGroup("reading ranges", [TimeoutError(), ConnectionResetError()]),
}
STAYING = {
    "not allowed": PermissionError(errno.EACCES, "no"),
    "a full disk": OSError(errno.ENOSPC, "full"),
    "botocore 403": client_error(403, "AccessDenied"),
    "s3fs makes PermissionError of 403": caused(PermissionError("no"), client_error(403, "AccessDenied")),
    "aiohttp 401": of("aiohttp.client_exceptions", "ClientResponseError", status=401),
    "501: never will be": of("aiohttp.client_exceptions", "ClientResponseError", status=501),
    "a wrong certificate": certificate_error(),
    "an unknown host": socket.gaierror(socket.EAI_NONAME, "unknown"),
    "a wrong argument": ValueError("wrong"),
    "a bug": TypeError("wrong"),
    "a group with one that stays": ExceptionGroup("reading ranges", [TimeoutError(), ValueError()]),
}
MISSING = {
    "no such file": FileNotFoundError("a"),
    "a folder": IsADirectoryError("a"),
    "no such key": KeyError("a"),
    "aiohttp 404": of("aiohttp.client_exceptions", "ClientResponseError", status=404),
    "botocore NoSuchKey": client_error(404, "NoSuchKey"),
    "s3fs makes FileNotFoundError of it": caused(FileNotFoundError("a"), client_error(404, "NoSuchKey")),
    "in a group": ExceptionGroup("reading ranges", [FileNotFoundError("a")]),
}


VERDICTS = {
    f"{verdict}: {name}": (error, verdict)
    for verdict, errors in (("passes", PASSING), ("stays", STAYING), ("missing", MISSING))
    for name, error in errors.items()
}


@pytest.mark.parametrize(("error", "verdict"), VERDICTS.values(), ids=VERDICTS)
def test_what_may_pass_is_retried_and_what_is_not_found_never(error, verdict):
    assert transient_errors.may_pass(error) is (verdict == "passes")
    assert transient_errors.is_not_found(error) is (verdict == "missing")
    store, clock = over(error, may_pass=(lambda _: True) if verdict == "missing" else None)
    if verdict == "passes":
        asyncio.run(store.get("a", PROTOTYPE))
        assert len(clock.naps) == 1
    else:
        with pytest.raises(type(error)):
            asyncio.run(store.get("a", PROTOTYPE))
        assert clock.naps == []


def test_real_errors_of_aiohttp_are_recognised():
    aiohttp = pytest.importorskip("aiohttp")
    info = aiohttp.RequestInfo("http://a", "GET", {}, "http://a")
    headers = {"Retry-After": "7"}
    error = aiohttp.ClientResponseError(info, (), status=429, headers=headers)
    assert transient_errors.may_pass(error)
    assert transient_errors.wanted_wait(error) == 7
    assert transient_errors.may_pass(aiohttp.ServerDisconnectedError())
    assert not transient_errors.may_pass(aiohttp.InvalidURL("a"))


# -- repeating -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.get("a", PROTOTYPE),
        lambda s: s.set("b", cpu.Buffer.from_bytes(b"2")),
        lambda s: s.delete("a"),
        lambda s: s.exists("a"),
        lambda s: s.getsize("a"),
        lambda s: s.get_partial_values(PROTOTYPE, [("a", None)]),
        lambda s: s._set_many([("b", cpu.Buffer.from_bytes(b"2"))]),
        lambda s: s.clear(),
    ],
    ids=["get", "set", "delete", "exists", "getsize", "get_partial_values", "set_many", "clear"],
)
def test_every_operation_is_repeated_until_it_succeeds(call, caplog):
    store, clock = over(TimeoutError("slow"), ConnectionResetError())
    asyncio.run(call(store))
    assert clock.naps == [0.1, 0.2]
    first, second = (record.message for record in caplog.records)
    assert first.endswith("attempt 1 failed, the next is in 0.10 s (TimeoutError: slow)")
    assert "attempt 2 failed" in second
    assert (store.figures().retries, store.figures().given_up) == (2, 0)


def test_so_are_the_synchronous_methods():
    store, clock = over(TimeoutError())
    if not serves_sync(MemoryStore()):
        assert not serves_sync(store)
        return
    assert store.get_sync("a").to_bytes() == b"1"
    assert clock.naps == [0.1]


def test_a_listing_that_breaks_off_gives_each_key_once():
    memory = {name: cpu.Buffer.from_bytes(b"") for name in "abcd"}
    store, _ = over(memory=memory)
    failing = store.inner(Failing)

    async def run():
        given = []
        async for key in store.list_prefix(""):
            given.append(key)
            if len(given) in {1, 3}:
                failing.errors.append(ConnectionResetError())
        return given

    assert asyncio.run(run()) == list("abcd")


def test_delays_double_up_to_20_seconds():
    store, clock = over(*[TimeoutError()] * 5, first=4)
    asyncio.run(store.get("a", PROTOTYPE))
    assert clock.naps == [4, 8, 16, 20, 20]


@given(st.floats(0, 1))
def test_chance_shortens_a_delay_by_at_most_a_half(share):
    store, clock = over(*[TimeoutError()] * 3, first=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retry.random, "random", lambda: share)
        asyncio.run(store.get("a", PROTOTYPE))
    assert all(full / 2 <= nap <= full for full, nap in zip([1, 2, 4], clock.naps, strict=True))


def test_a_server_is_given_the_time_it_asks_for():
    store, clock = over(client_error(503, "SlowDown", {"Retry-After": "9"}))
    asyncio.run(store.get("a", PROTOTYPE))
    assert clock.naps == [9]


def test_attempts_come_to_an_end():
    store, clock = over(*[TimeoutError("slow")] * 5, attempts=3)
    with pytest.raises(StorageError) as caught:
        asyncio.run(store.get("a", PROTOTYPE))
    assert len(clock.naps) == 2
    assert caught.value.problem.key == "a"
    assert "layer 'retry'" in str(caught.value)
    assert "TimeoutError: slow, after 3 attempts in 0.3 s" in str(caught.value)
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert store.figures().given_up == 1


def test_the_budget_is_not_overdrawn():
    store, clock = over(*[TimeoutError()] * 50, attempts=50, first=1, budget=3.5)
    with pytest.raises(StorageError):
        asyncio.run(store.get("a", PROTOTYPE))
    assert clock.naps == [1, 2]


@pytest.mark.parametrize("options", [{"attempts": 1}, {"budget": 0}])
def test_without_a_retry_the_error_stands_as_it_is(options):
    store, _ = over(TimeoutError(), **options)
    with pytest.raises(TimeoutError):
        asyncio.run(store.get("a", PROTOTYPE))


def test_cancelling_is_no_error_to_repeat():
    store, clock = over(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(store.get("a", PROTOTYPE))
    assert clock.naps == []


@pytest.mark.parametrize(
    ("may_pass", "error", "retried"),
    [
        (lambda error: True, ValueError(), True),
        (lambda error: False, TimeoutError(), False),
        (lambda error: None, TimeoutError(), True),
        (lambda error: None, ValueError(), False),
    ],
)
def test_a_function_is_asked_before_the_error(may_pass, error, retried):
    store, clock = over(error, may_pass=may_pass)
    with nullcontext() if retried else pytest.raises(type(error)):
        asyncio.run(store.get("a", PROTOTYPE))
    assert bool(clock.naps) is retried


def test_json_names_the_options():
    layer = Retry(attempts=5, first=0.5)
    assert layer.to_json() == {"name": "zarrstack.retry", "configuration": {"attempts": 5, "first": 0.5}}
    with pytest.raises(UsageError, match="may_pass"):
        Retry(may_pass=bool).to_json()
