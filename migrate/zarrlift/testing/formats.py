"""The suite of source formats.

    class TestTiles(FormatTests):
        format = Tiles

        def write(self, folder):
            ...
            return {"plate/well": values}

detects the archive, reads it as it is and after a migration, from files and from a store, and damages its
documents. It requires pytest. The format need not be installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
import zarr
from zarr.core.buffer import Buffer, cpu
from zarr.storage import MemoryStore

import zarrlift
from zarrstack.core.errors import ZarrstackError

from ..archive.nodes import ArrayNode
from ..core.data_types.bits import same_bits
from ..formats import registry
from ..formats.contract import SourceFormat
from ..formats.describe import describe
from ..formats.outside import is_chunk
from ..formats.registry import BrokenFormatError
from ..recipe import format_names
from ..storage.open_storage import open_storage

Values: TypeAlias = Mapping[str, npt.NDArray[Any]]
"""The values of every array of an archive, by path."""

_DAMAGE = (b"", b"\0", b"\xff\xfe", b"{", b"{}", b"[]", b"null", b"[" * 100_000, b"<a/>")


@contextmanager
def installed(*formats: type[SourceFormat]) -> Iterator[None]:
    """Use these formats in this process, in place of installed ones of their names."""
    before = dict(format_names.at_run_time)
    try:
        for each in formats:
            registry.register(each)
        yield
    finally:
        registry.replace_registered(before)


class FormatTests:
    """Base class: subclass it with a name that starts with `Test`, set `format`, and define `write`."""

    format: ClassVar[type[SourceFormat]]
    """The format under test."""

    def write(self, folder: Path) -> Values:
        """Write an archive into an empty folder; return the values of every array by path.

        It has what the format has: several arrays and groups, attributes, a missing chunk, chunks at edges.
        """
        raise NotImplementedError

    @pytest.fixture
    def values(self, folder: Path) -> Values:
        """The values of every array, by path."""
        return self._values

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Iterator[Path]:
        """An archive, while the format is installed."""
        folder = tmp_path / "archive"
        folder.mkdir()
        self._values = self.write(folder)
        with installed(self.format):
            yield folder

    _values: Values

    def test_the_archive_is_detected(self, folder: Path) -> None:
        """The format is found without `--from`, and with it."""
        assert zarrlift.inspect(folder).format == self.format.name
        assert zarrlift.inspect(folder, format=self.format.name).format == self.format.name

    def test_every_array_is_described(self, folder: Path, values: Values) -> None:
        """The arrays have the paths, shapes and types of what was written, and nothing is refused."""
        archive = zarrlift.inspect(folder)
        assert [str(problem) for problem in archive.all_problems() if problem.severity == "refusal"] == []
        described = {
            node.path: (node.layout.shape, node.layout.data_type.numpy)
            for node in archive.nodes
            if isinstance(node, ArrayNode) and node.layout is not None
        }
        assert described == {
            path: (array.shape, array.dtype.newbyteorder("=")) for path, array in values.items()
        }

    def test_every_file_belongs_to_a_node(self, folder: Path) -> None:
        """Each file of the archive is a document or a chunk of a node."""
        archive = describe(open_storage(folder))
        files = {str(path.relative_to(folder).as_posix()) for path in folder.rglob("*") if path.is_file()}
        claimed = {document.key for node in archive.nodes for document in node.documents}
        arrays = [node for node in archive.nodes if isinstance(node, ArrayNode)]
        assert [
            key
            for key in sorted(files - claimed)
            if not any(node.layout and is_chunk(node.layout, node.path, key) for node in arrays)
        ] == []

    def test_two_readings_are_equal(self, folder: Path) -> None:
        """An unchanged archive is described in the same way again, as when a job is resumed."""
        assert describe(open_storage(folder)) == describe(open_storage(folder))

    def test_a_store_is_read_like_files(self, folder: Path, values: Values) -> None:
        """The format reads through the given files alone, so an archive may be in any store."""
        stored: dict[str, Buffer] = {
            path.relative_to(folder).as_posix(): cpu.Buffer.from_bytes(path.read_bytes())
            for path in folder.rglob("*")
            if path.is_file()
        }
        store = MemoryStore({**stored})
        assert describe(open_storage(store)).nodes == describe(open_storage(folder)).nodes
        self._compare(zarrlift.open(store), values)

    def test_a_view_shows_the_values(self, folder: Path, values: Values) -> None:
        """`zarrlift.open` shows every value."""
        self._compare(zarrlift.open(folder), values)

    def test_a_migration_keeps_the_values(self, folder: Path, values: Values, tmp_path: Path) -> None:
        """zarr-python reads every value of the result, and `verify --full` finds no difference."""
        outcome = zarrlift.migrate(folder, tmp_path / "result")
        assert outcome.ok, outcome
        self._compare(zarr.open(tmp_path / "result", mode="r"), values)
        report = zarrlift.verify(folder, tmp_path / "result", full=True)
        assert report.ok, report

    def test_nothing_is_recognised_with_an_error(self, folder: Path) -> None:
        """`recognise` answers for any content, also that of other programs."""
        contents = [path.read_bytes() for path in _documents(folder)]
        cut = [content[: len(content) * part // 7] for content in contents for part in range(7)]
        for name in self.format.documents:
            for content in (*_DAMAGE, *contents, *cut):
                assert self.format().recognise(name, content) in ("array", "group", None)

    def test_a_damaged_document_is_no_failure_of_the_format(self, folder: Path) -> None:
        """A damaged document refuses its nodes or the archive, with a reason."""
        for path in _documents(folder):
            content = path.read_bytes()
            for damage in (*_DAMAGE, content[: len(content) // 2], content[1:]):
                path.write_bytes(damage)
                with suppress(ZarrstackError):
                    try:
                        describe(open_storage(folder), format=self.format.name)
                    except BrokenFormatError as error:
                        pytest.fail(f"{path.name} with {damage[:20]!r}: {error}")
            path.write_bytes(content)

    def _compare(self, root: Any, values: Values) -> None:
        for path, expected in values.items():
            actual = (root[path] if path else root)[...]
            native = np.asarray(expected, dtype=expected.dtype.newbyteorder("="))
            assert same_bits(np.asarray(actual), native), path


def _documents(folder: Path) -> list[Path]:
    """The documents of an archive that its nodes name."""
    archive = describe(open_storage(folder))
    return [folder / key for key in sorted({each.key for node in archive.nodes for each in node.documents})]
