"""How many requests a store is sent at once: in simulated time, against simulated servers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.chances import examples
from tests.support.fake_clock import LoopClock, Server, TooMuch, simulate

from zarrlift.storage.remote.adaptive_concurrency import (
    MAX_REQUESTS,
    ConcurrencyLimiter,
)
from zarrstack.core.errors import StorageError


def run(server: Server, requests: int, *, size: int = 1000) -> tuple[ConcurrencyLimiter, float]:
    """The pace after so many requests that all want to begin at once, and the seconds they took."""

    async def all_of_them() -> ConcurrencyLimiter:
        pace = ConcurrencyLimiter(clock=LoopClock())

        async def one() -> int:
            return await pace(lambda: server.ask(size), single=True)

        assert await asyncio.gather(*(one() for _ in range(requests))) == [size] * requests
        return pace

    return simulate(all_of_them)


@pytest.mark.slow
def test_a_store_that_answers_more_when_asked_more_is_asked_as_much_as_is_allowed() -> None:
    server = Server(latency=0.02, width=9999)
    pace, _ = run(server, 10_000)
    assert pace.limit == MAX_REQUESTS == server.most


def test_waiting_for_answers_is_shared_by_as_many_as_possible() -> None:
    _, seconds = run(Server(latency=0.1, width=9999), 10_000)
    at_first = 10_000 * 0.1 / 64
    assert 10_000 * 0.1 / MAX_REQUESTS < seconds < at_first / 2


@pytest.mark.slow(one_in=3)
@pytest.mark.parametrize("width", [2, 4, 8])
def test_a_store_that_does_no_more_at_a_time_is_not_asked_much_more(width: int) -> None:
    """It answers those that came first as fast as it can, and the others ever later."""
    server = Server(latency=0.02, width=width)
    _, seconds = run(server, 2000)
    assert 64 < server.most <= 64 + 9 * width
    assert seconds < 1.01 * 2000 * 0.02 / width


def limits_of(requests: int, *, together: bool, refused: int = 0) -> list[int]:
    """The number of requests at each answer, of a store that turns the first ones away."""
    limits: list[int] = []

    async def work() -> None:
        pace = ConcurrencyLimiter(clock=LoopClock())
        turned_away = 0

        async def ask() -> int:
            nonlocal turned_away
            await asyncio.sleep(0.01)
            if turned_away < refused:
                turned_away += 1
                raise TooMuch
            limits.append(pace.limit)
            return 0

        if together:
            await asyncio.gather(*(pace(ask, single=True) for _ in range(requests)))
        else:
            for _ in range(requests):
                await pace(ask, single=True)

    simulate(work)
    return limits


def test_the_number_grows_with_each_answer_while_others_wait() -> None:
    assert limits_of(1000, together=True)[:500] == [min(64 + done, MAX_REQUESTS) for done in range(500)]
    assert limits_of(1000, together=False) == [64] * 1000


def test_after_a_refusal_the_number_grows_by_one_for_as_many_answers_as_it_allows() -> None:
    limits = limits_of(3000, together=True, refused=1)
    assert limits == sorted(limits)
    *grown, last = counts = {limit: limits.count(limit) for limit in dict.fromkeys(limits)}
    assert last == 82
    # The 63 requests that were in flight at the refusal do not count.
    assert {limit: counts[limit] for limit in grown} == {
        32: 63 + 32,
        **{limit: limit for limit in range(33, 82)},
    }


def test_requests_are_halved_where_the_store_asks_for_patience_and_none_is_lost() -> None:
    server = Server(latency=0.02, width=9999, refuses=lambda there: there > 24)
    pace, _ = run(server, 5000)
    assert server.answers == 5000
    assert 0 < server.refused < 500
    assert pace.limit <= 24 + 8


def test_a_burst_of_refusals_halves_once() -> None:
    assert min(limits_of(64, together=True, refused=64)) == 32


def test_a_store_that_never_has_time_is_given_up_after_a_while() -> None:
    server = Server(latency=0.01, width=1, refuses=lambda _: True)

    async def work() -> None:
        with pytest.raises(TooMuch):
            await ConcurrencyLimiter(clock=LoopClock())(server.ask, single=True)

    _, seconds = simulate(work)
    assert server.refused == 9
    assert 20 < seconds < 60


def scripted(*answers: object) -> tuple[Callable[[], Awaitable[object]], list[object]]:
    """A request with these answers in turn, of which errors are raised, and those that it has given."""
    left, given = iter(answers), []

    async def ask() -> object:
        given.append(next(left))
        if isinstance(given[-1], Exception):
            raise given[-1]
        return given[-1]

    return ask, given


def test_what_the_store_wants_to_be_waited_is_waited() -> None:
    class Later(TooMuch):
        status = 429
        headers = {"Retry-After": "33"}

    ask, _ = scripted(Later(), 7)
    assert simulate(lambda: ConcurrencyLimiter(clock=LoopClock())(ask, single=True)) == (7, 33)


@pytest.mark.parametrize("answered", [False, True], ids=["never answered", "answered before"])
def test_a_request_that_failed_on_its_way_is_repeated_for_a_while(answered: bool) -> None:
    """Not for long where the place never gave an answer, since it may be none."""
    answers = iter([7] if answered else [])

    async def ask() -> int:
        for answer in answers:
            return answer
        await asyncio.sleep(1)
        raise ConnectionResetError

    async def work() -> None:
        pace = ConcurrencyLimiter(clock=LoopClock())
        if answered:
            assert await pace(ask, single=True) == 7
        with pytest.raises(ConnectionResetError):
            await pace(ask, single=True)

    seconds = simulate(work)[1]
    assert 30 < seconds < 60 if answered else 2 < seconds < 7


@pytest.mark.parametrize(
    "error", [TimeoutError(), ConnectionResetError(), ConnectionAbortedError()], ids=repr
)
def test_what_may_pass_is_asked_again(error: Exception) -> None:
    ask, _ = scripted(error, error, 7)
    assert simulate(lambda: ConcurrencyLimiter(clock=LoopClock())(ask, single=True))[0] == 7


GAVE_UP = StorageError("get fails again and again", key="a")
GAVE_UP.__cause__ = TooMuch()


@pytest.mark.parametrize(
    ("error", "limit"),
    [(EOFError("a bad zip"), 64), (PermissionError("no"), 64), (ValueError("a bug"), 64), (GAVE_UP, 32)],
    ids=["a bad zip", "no", "a bug", "a layer that gave up"],
)
def test_other_errors_are_told_at_once_and_not_asked_again(error: Exception, limit: int) -> None:
    ask, given = scripted(error)

    async def work() -> int:
        pace = ConcurrencyLimiter(clock=LoopClock())
        with pytest.raises(type(error)):
            await pace(ask, single=True)
        return pace.limit

    assert simulate(work) == (limit, 0)
    assert given == [error]


@examples(50)
@given(st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 400))
def test_never_too_many_and_nobody_waits_for_ever(seed: int, width: int, requests: int) -> None:
    """Requests that end, fail, or are cancelled at any moment leave no place taken."""
    chance = random.Random(seed)
    server = Server(latency=0.01, width=width)

    async def work() -> ConcurrencyLimiter:
        pace = ConcurrencyLimiter(clock=LoopClock())

        async def ask() -> int:
            await asyncio.sleep(chance.random())
            if chance.random() < 0.2:
                raise ConnectionResetError
            return await server.ask()

        tasks = [asyncio.ensure_future(pace(ask, single=True)) for _ in range(requests)]
        for task in tasks:
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() / 10)
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # Whoever comes now finds every place free.
        asked, free = server.answers, pace.limit
        await asyncio.gather(*(pace(server.ask, single=True) for _ in range(free)))
        assert server.answers == asked + free
        return pace

    pace, _ = simulate(work)
    assert server.most <= MAX_REQUESTS
    assert pace._in_flight == 0
