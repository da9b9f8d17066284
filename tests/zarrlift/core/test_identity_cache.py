"""What was made of some objects is found again by the objects themselves."""

from __future__ import annotations

import pytest

from zarrlift.core.identity_cache import MAX_ENTRIES, IdentityCache, MemberIdentityCache


def test_the_same_objects_are_worked_on_once_and_equal_ones_again():
    made: list[tuple[list[int], bool]] = []
    remembered = IdentityCache(lambda *objects: made.append(objects) or len(made))
    first, second = [1], [1]
    assert [remembered(first, True), remembered(first, True)] == [1, 1]
    assert [remembered(second, True), remembered(first, False), remembered(first, True)] == [2, 3, 1]


def test_what_could_not_be_made_is_tried_again():
    answers = iter([ZeroDivisionError(), 7])

    def make(_):
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    remembered = IdentityCache(make)
    with pytest.raises(ZeroDivisionError):
        remembered("a")
    assert remembered("a") == 7


def test_no_object_takes_the_place_of_one_that_is_gone():
    remembered = IdentityCache(lambda item: item[0])
    assert [remembered([number]) for number in range(3 * MAX_ENTRIES)] == [*range(3 * MAX_ENTRIES)]


def test_an_object_made_anew_of_the_same_members_is_the_same():
    made: list[dict] = []
    remembered = MemberIdentityCache(lambda value: made.append(value) or len(made))
    shape, codecs = [1], ["bytes"]
    assert [remembered({"shape": shape, "codecs": codecs}) for _ in range(2)] == [1, 1]
    assert remembered({"shape": [1], "codecs": codecs}) == 2
    assert remembered({"codecs": codecs, "shape": shape}) == 3
    assert remembered({}) == 4
    assert [list(value) for value in made[1:]] == [["shape", "codecs"], ["codecs", "shape"], []]
