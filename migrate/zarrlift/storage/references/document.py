"""Reads a document of references: JSON of kerchunk's specification, version 0 or 1.

Version 0 is the object of references itself; version 1 has them under `refs`, beside `templates` and `gen`.
Members are read one after the other: the document as Python objects would take several times the memory.

Templates are substituted as plain text. kerchunk's specification has templates of Jinja, a language that can
be made to run code. What writers use of it is a name, and a call of another template with named texts. Only
these are evaluated.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
from collections.abc import Iterator, Mapping
from json.decoder import JSONDecoder
from typing import Any, Final

from zarrstack.core.errors import MetadataError, UnsupportedError, UsageError, short

from .index import BadReference, Found, MemoryIndex, Reference

_MARKED: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_CALL: Final = re.compile(r"([A-Za-z_]\w*)\((.*)\)", re.DOTALL)
_ARGUMENT: Final = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*('[^']*'|\"[^\"]*\"|-?\d+|[A-Za-z_]\w*)\s*(?:,|$)")
_LONGEST: Final = 200
"""Maximum length in characters of an expression."""


class Templates:
    """The templates of a document by name."""

    def __init__(self, texts: Mapping[str, Any]) -> None:
        """MetadataError unless all are texts."""
        for name, text in texts.items():
            if not isinstance(text, str):
                raise MetadataError("a template is not a text", found=f"{name!r}: {type(text).__name__}")
        self._texts: Mapping[str, str] = texts

    def apply(self, text: str, values: Mapping[str, str] | None = None) -> str:
        """The text with each `{{...}}` replaced; `values` are the arguments of a call.

        Raises MetadataError for a name that is unknown, and for anything but names and calls.
        """
        return _MARKED.sub(lambda match: self._value(match[1].strip(), values or {}), text)

    def _value(self, expression: str, values: Mapping[str, str]) -> str:
        if len(expression) > _LONGEST:
            raise _unsupported(expression)
        if _NAME.fullmatch(expression):
            if expression in values:
                return values[expression]
            if expression in self._texts:
                return self._texts[expression]
            raise MetadataError("a template is unknown", found="{{" + short(expression, 60) + "}}")
        if (call := _CALL.fullmatch(expression)) and call[1] in self._texts:
            return self._called(call[1], call[2], expression)
        raise _unsupported(expression)

    def _called(self, name: str, arguments: str, expression: str) -> str:
        values: dict[str, str] = {}
        at = 0
        while at < len(arguments):
            match = _ARGUMENT.match(arguments, at)
            if match is None:
                raise _unsupported(expression)
            text = match[2]
            values[match[1]] = text[1:-1] if text[0] in "'\"" else text
            at = match.end()
        # A template sees its arguments only, so templates cannot call each other in a circle.
        return Templates({}).apply(self._texts[name], values)


def _unsupported(expression: str) -> MetadataError:
    return MetadataError(
        "a template is not plain text",
        found="{{" + short(expression, 60) + "}}",
        expected="a name, or a call such as f(c='text')",
        advice="Write the references without templates, with kerchunk or by hand.",
    )


MAX_DOCUMENT: Final = 1 << 30
"""Maximum size of a document in bytes, after decompression: about ten million references."""
ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a Zstandard frame (RFC 8878, 3.1.1)."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_USUAL: Final = re.compile(
    r'[ \t\n\r]*"([^"\\]+)"[ \t\n\r]*:[ \t\n\r]*'
    r'\[[ \t\n\r]*"([^"\\]+)",[ \t\n\r]*(\d{1,18}),[ \t\n\r]*(\d{1,18})[ \t\n\r]*\],[ \t\n\r]*(?=")',
    re.ASCII,
)
"""A member `"key": ["url", offset, length],` without escapes, and another one behind it."""
_DECODER: Final = JSONDecoder(strict=False)
_BASE64: Final = "base64:"
_HEAD: Final = frozenset({"version", "templates", "gen", "refs"})
"""Members of a document of version 1."""
_LARGEST: Final = (1 << 63) - 1


def read_document(content: bytes) -> MemoryIndex:
    """The references in a document.

    UsageError if it has none, MetadataError if it is invalid, UnsupportedError for generated ones. An entry
    that is not a valid reference is kept as `BadReference`, so that all are reported at the array that they
    belong to.
    """
    if content.startswith(ZSTD):
        content = _decompressed(content)
    if len(content) > MAX_DOCUMENT:
        raise too_large()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError("not a document of references", found=f"not UTF-8: {error}") from None
    del content
    try:
        return _Reader(text).read()
    except (ValueError, RecursionError) as error:
        if isinstance(error, MetadataError | UnsupportedError | UsageError):
            raise
        raise UsageError("not a document of references", found=f"invalid JSON ({error})") from None


def too_large() -> UsageError:
    """The error for a document that is too large."""
    return UsageError(
        "the document of references is too large",
        expected=f"at most {MAX_DOCUMENT} bytes",
        advice="Write the references as Parquet, with kerchunk.df.refs_to_dataframe or VirtualiZarr.",
    )


def _decompressed(content: bytes) -> bytes:
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(content), read_across_frames=True) as file:
            plain: bytes = file.read(MAX_DOCUMENT + 1)
    except zstandard.ZstdError as error:
        raise UsageError("not a document of references", found=f"invalid Zstandard ({error})") from None
    return plain


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0

    def read(self) -> MemoryIndex:
        at = self._skip(0)
        if self._text[at : at + 1] == "[":
            # kerchunk's `scan_grib` returns a set for each message of a file (0.2.10).
            raise UsageError(
                "a list of reference sets, not one set",
                found="a JSON list",
                expected="a JSON object",
                advice="Take one: write each element of the list to a file of its own, "
                "or combine them with kerchunk's MultiZarrToZarr.",
            )
        if self._text[at : at + 1] != "{":
            raise UsageError("not a document of references", expected="a JSON object")
        head: dict[str, Any] = {}
        first, refs = MemoryIndex(), None
        for name, start in self._members(at):
            if name == "refs" and self._text[start : start + 1] == "{":
                refs = MemoryIndex()
                for key, place in self._members(start, refs):
                    refs.add(key, self._entry(place))
            elif name in _HEAD:
                head[name] = self._value(start)
            else:
                first.add(name, self._entry(start))
        if self._skip(self._end) != len(self._text):
            raise ValueError("text after the end")
        version = head.get("version")
        if refs is None and version is None:
            return first
        if type(version) is not int or version != 1 or refs is None:
            raise UsageError(
                "the version of these references is unknown",
                found="no refs" if refs is None else repr(version),
                expected="version 1 with refs, or a document of version 0",
            )
        return _substituted(refs, head)

    def _members(self, at: int, usual: MemoryIndex | None = None) -> Iterator[tuple[str, int]]:
        """Name and start of the value of each member; `_end` must be set to the end of each value.

        References in the form that they usually have are added to `usual` instead.
        """
        text, at = self._text, self._skip(at + 1)
        self._end = at
        while text[at : at + 1] != "}":
            while usual is not None and (match := _USUAL.match(text, at)):
                key, url, offset, length = match.groups()
                usual.add_span(key, url, int(offset), int(length))
                at = match.end()
            if text[at : at + 1] != '"':
                raise ValueError(f"expected a name at character {at}")
            name, at = _DECODER.raw_decode(text, at)
            at = self._skip(at)
            if text[at : at + 1] != ":":
                raise ValueError(f"expected a colon at character {at}")
            yield name, self._skip(at + 1)
            at = self._skip(self._end)
            if text[at : at + 1] == ",":
                at = self._skip(at + 1)
                if text[at : at + 1] == "}":
                    raise ValueError(f"expected a name at character {at}")
            elif text[at : at + 1] != "}":
                raise ValueError(f"expected a comma at character {at}")
        self._end = at + 1

    def _value(self, at: int) -> Any:
        value, self._end = _DECODER.raw_decode(self._text, at)
        return value

    def _entry(self, at: int) -> Found:
        return entry(self._value(at))

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self._text, at)
        return at if match is None else match.end()


def entry(value: Any) -> Found:
    """A member of the references as what is stored under its key."""
    if isinstance(value, str):
        try:
            if value.startswith(_BASE64):
                return base64.b64decode(value[len(_BASE64) :], validate=True)
            return value.encode()
        except binascii.Error as error:
            return BadReference(f"invalid base64 ({error})")
        except UnicodeEncodeError:
            return BadReference("text that is not Unicode")
    if isinstance(value, dict):
        return json.dumps(value).encode()
    if isinstance(value, list) and len(value) in (1, 3):
        url, *span = value
        if not isinstance(url, str) or not url:
            return BadReference(f"no target ({short(repr(url), 40)})")
        if not all(type(number) is int and 0 <= number <= _LARGEST for number in span):
            return BadReference(f"offset and length {short(repr(span), 60)}")
        return Reference(url, *span)
    found = f"a list of {len(value)}" if isinstance(value, list) else short(repr(value), 40)
    return BadReference(f"{found} instead of a text, an object, [url] or [url, offset, length]")


def _substituted(refs: MemoryIndex, head: Mapping[str, Any]) -> MemoryIndex:
    """The references of version 1 with their templates applied; UnsupportedError for generated ones."""
    if head.get("gen"):
        raise UnsupportedError(
            "references are generated, which is not supported",
            found="gen",
            expected="each reference under refs",
            advice="Expand them with fsspec (simple_templates=False) or kerchunk, and name the new document.",
        )
    texts = head.get("templates") or {}
    if not isinstance(texts, dict):
        raise MetadataError("templates are not an object", found=type(texts).__name__)
    templates = Templates(texts)
    new: dict[str, str | BadReference] = {}
    for url in refs.urls():
        if "{{" in url:
            try:
                new[url] = templates.apply(url)
            except MetadataError as error:
                new[url] = BadReference(f"{error.problem.message}: {error.problem.found}")
    refs.rename_urls(new)
    return refs
