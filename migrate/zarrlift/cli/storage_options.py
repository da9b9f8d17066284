"""The options that open places: `--storage-options`, with the place that each is for, and references.

Annotations are not postponed, as in `options`.
"""

import json
from collections.abc import Iterable
from functools import cache
from inspect import Parameter
from typing import Annotated, Any, ClassVar

from .option_groups import Group, option, parameter, usage

_ARGUMENTS = {"src": "storage_options", "dst": "dest_storage_options", "job": "job_storage_options"}
_WORDS = {
    "src": "the source",
    "dst": "the destination",
    "job": "a job file in a store",
    "ref": "the places that references lead to",
}


class Storage(Group):
    """How the places of a command are opened."""

    heading = "Where"
    places: ClassVar[tuple[str, ...]] = ("src", "dst", "job")
    """Those that the command has, besides those of references."""
    unnamed: ClassVar[tuple[str, ...]] = ("src",)
    """Those that get options without a place."""
    referring: ClassVar[tuple[str, ...]] = ("src",)
    """Those that may consist of references."""

    @classmethod
    @cache
    def parameters(cls) -> tuple[Parameter, ...]:
        """The two options."""
        prefixes = [*cls.places, *(["ref"] if "src" in cls.places else [])]
        text = "fsspec options: KEY=VALUE (repeatable) or one JSON object"
        if len(prefixes) > 1:
            places = ", ".join(f"{place}: for {_WORDS[place]}" for place in prefixes)
            unnamed = " and ".join(_WORDS[place] for place in cls.unnamed)
            text += f", after the place they are for ({places}); without one, for {unnamed}"
        words = option("--storage-options", help=f"{text}.", metavar="[PLACE:]KEY=VALUE", heading=cls.heading)
        parameters = [parameter("storage_options", Annotated[list[str] | None, words], None)]
        if "ref" in prefixes:
            words = option(
                "--allow-references",
                help="References of kerchunk and VirtualiZarr may lead to places below this directory or URL "
                "(repeatable).",
                metavar="PREFIX",
                heading="What to convert",
            )
            parameters.append(parameter("allow_references", Annotated[list[str] | None, words], None))
        return tuple(parameters)

    def arguments(self) -> dict[str, Any]:
        """Arguments of the public functions; UsageError."""
        return self.given_for(self.unnamed)

    def given_for(self, unnamed: tuple[str, ...]) -> dict[str, Any]:
        """`arguments`, with options without a place for these places."""
        per_place = by_place(vars(self)["storage_options"], self.places, unnamed)
        theirs, allowed = per_place.pop("ref", None), vars(self).get("allow_references")
        if theirs or allowed:
            from ..storage.reference_options import with_references

            for place in self.referring:
                per_place[place] = with_references(per_place.get(place), allowed, theirs) or {}
        return {_ARGUMENTS[place]: options for place, options in per_place.items() if options}


class SourceStorage(Storage):
    """How a source is opened."""

    places = ("src",)


class DestinationStorage(Storage):
    """How a destination is opened."""

    places = ("dst",)
    unnamed = ("dst",)


class BothStorage(Storage):
    """How sources and destinations are opened."""

    places = ("src", "dst")


class JobStorage(Storage):
    """How an archive and its job are opened."""

    places = ("src", "job")


class ComparedStorage(Storage):
    """How two archives that are compared are opened, and their job."""

    unnamed = ("src", "dst")

    def of(self, source: str, destination: str | None) -> dict[str, Any]:
        """`arguments`, where options without a place are for those of the two that are URLs."""
        from ..storage.open_storage import is_url

        named = {"src": source, "dst": destination or ""}
        return self.given_for(tuple(place for place in self.unnamed if is_url(named[place])) or ("src",))


class DiffStorage(ComparedStorage):
    """How two archives that are compared without a job are opened."""

    places = ("src", "dst")
    referring = ("src", "dst")


def by_place(
    texts: Iterable[str] | None, places: tuple[str, ...], unnamed: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Fsspec options by place, from `[PLACE:]KEY=VALUE` words and JSON objects; later ones win. UsageError.

    A place stands at the start of the key only. The value of a pair is JSON if it can be parsed as such
    (`anon=true`, `timeout=5`), otherwise text. What is given for one place goes to no other.
    """
    general: dict[str, dict[str, Any]] = {}
    specific: dict[str, dict[str, Any]] = {}
    allowed = (*places, "ref") if "src" in places else places
    for text in texts or ():
        key, equals, content = text.partition("=")
        start, colon, _ = key.partition(":")
        place = start.strip() if colon and start.strip() in _WORDS else None
        if place is not None and place not in allowed:
            raise usage(f"--storage-options: this command has no {place}:", expected=", ".join(allowed))
        word = text if place is None else text.partition(":")[2]
        if word.lstrip().startswith("{"):
            options = _object(word)
        elif not equals or not (name := word.partition("=")[0]):
            # The word may be a secret in the wrong form, so it is not repeated.
            raise usage(
                "--storage-options takes [PLACE:]KEY=VALUE or a JSON object", expected="such as anon=true"
            )
        else:
            try:
                options = {name: json.loads(content)}
            except ValueError:
                options = {name: content}
        for each in unnamed if place is None else (place,):
            (general if place is None else specific).setdefault(each, {}).update(options)
    return {
        place: general.get(place, {}) | specific.get(place, {}) for place in general.keys() | specific.keys()
    }


def _object(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise usage(f"--storage-options is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise usage("--storage-options is not a JSON object")
    return data
