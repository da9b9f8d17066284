"""Tiles: a directory for each image, with `tiles.json` and files such as `tile_003_001.bin`."""

from zarrlift.errors import UnsupportedError
from zarrlift.formats import Array, Directory, Group, NodeKind, SourceFormat, json_object

DOCUMENT = "tiles.json"
SAMPLES = {"u8": ("uint8", "little"), "u16be": ("uint16", "big"), "f32": ("float32", "little")}
PACKING = {"none": [], "zlib": [{"name": "numcodecs.zlib", "configuration": {"level": 1}}]}


class Tiles(SourceFormat):
    """Image tiles of a microscope."""

    name = "tiles"
    documents = (DOCUMENT,)

    def recognise(self, document: str, content: bytes) -> NodeKind | None:
        data = json_object(content)
        if data is None or data.get("made_by") != "tilescope":
            return None
        return "array" if "size" in data else "group"

    def node(self, directory: Directory) -> Array | Group:
        data = directory.json(DOCUMENT)
        notes = data.get("notes", {})
        if "size" not in data:
            return Group(path=directory.path, attributes=notes, documents=[directory.key(DOCUMENT)])
        if data["sample"] not in SAMPLES or data["packing"] not in PACKING:
            raise UnsupportedError(
                "unknown kind of tiles",
                found=f"{data['sample']}, {data['packing']}",
                expected=f"{', '.join(SAMPLES)}; {', '.join(PACKING)}",
            )
        data_type, endian = SAMPLES[data["sample"]]
        return Array(
            path=directory.path,
            shape=data["size"],
            chunk_shape=data["tile"],
            data_type=data_type,
            fill_value=data["background"],
            codecs=[{"name": "bytes", "configuration": {"endian": endian}}, *PACKING[data["packing"]]],
            keys="tile_{0:03}_{1:03}.bin",
            documents=[directory.key(DOCUMENT)],
            attributes=notes,
            dimension_names=["y", "x"],
        )
