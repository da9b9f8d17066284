from pathlib import Path

from write_tiles import write_tiles
from zarrlift_tiles import Tiles

from zarrlift.testing import FormatTests, Values


class TestTiles(FormatTests):
    format = Tiles

    def write(self, folder: Path) -> Values:
        return write_tiles(folder)
