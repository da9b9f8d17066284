"""A test of many cases fails as its cases would: each of them, by name."""

from __future__ import annotations

import pytest
from tests.support.every import try_each


def test_every_case_is_tried_and_each_that_fails_is_told_by_name() -> None:
    tried = []

    def check(number: int) -> None:
        tried.append(number)
        if number == 3:
            pytest.fail("three")
        if number == 4:
            with pytest.raises(ValueError, match="four"):
                pass
        assert number % 2

    with pytest.raises(BaseExceptionGroup, match="3 of 5 cases failed") as caught:
        try_each([1, 2, 3, 4, 5], check)
    assert tried == [1, 2, 3, 4, 5]
    assert [error.__notes__ for error in caught.value.exceptions] == [["Case: 2"], ["Case: 3"], ["Case: 4"]]


def test_no_case_is_no_test() -> None:
    with pytest.raises(AssertionError, match="no case"):
        try_each([], lambda _: None)
