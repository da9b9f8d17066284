"""Open archives before and after their migration, as the applications do.

Reads a JSON list of [WHAT, BEFORE, AFTER] and prints as its last line, for each, how much was compared, or the
traceback where they differ or the result does not validate. Run by tests/zarrlift/conventions/test_applications.py in an
environment of its own.
"""

import json
import sys
import traceback
import warnings
from pathlib import Path

warnings.simplefilter("ignore")


def anndata(before, after):
    """Every element equal; chunked and whole."""
    import anndata
    from anndata.tests.helpers import assert_equal

    old, new = anndata.read_zarr(before), anndata.read_zarr(after)
    assert_equal(old, new, exact=True)
    return len(new.obs.columns) + len(new.layers) + len(new.uns) + len(new.obsm) + len(new.obsp) + 1


def mudata(before, after):
    """Every modality equal, and what they share."""
    import mudata
    from anndata.tests.helpers import assert_equal

    old, new = mudata.read_zarr(before), mudata.read_zarr(after)
    assert sorted(old.mod) == sorted(new.mod)
    for name in old.mod:
        assert_equal(old.mod[name], new.mod[name], exact=True)
        assert_equal(old.obsmap[name], new.obsmap[name], exact=True)
    for part in ("obs", "var", "uns"):
        assert_equal(getattr(old, part), getattr(new, part), exact=True)
    return len(new.mod) + 3


def vcf(before, after):
    """The same VCF, by vcztools; xarray's datasets are compared in the suite."""
    import subprocess

    program = str(Path(sys.executable).parent / "vcztools")
    lines = [
        subprocess.run(
            [program, "view", "--no-version", place], capture_output=True, check=True
        ).stdout.splitlines()
        for place in (before, after)
    ]
    assert lines[0] == lines[1]
    return len(lines[0])


def geo(before, after):
    """rioxarray: reference system, grid, no-data value, and values; GDAL: the same values unpacked."""
    import numpy as np
    import rasterio
    import rioxarray  # noqa: F401
    import xarray

    options = {"decode_coords": "all", "chunks": None}
    old, new = (xarray.open_zarr(place, **options).load() for place in (before, after))
    xarray.testing.assert_identical(old, new)
    assert old.rio.crs.to_epsg() == new.rio.crs.to_epsg() == 32633
    assert old.rio.transform() == new.rio.transform()
    assert old.reflectance.rio.encoded_nodata == new.reflectance.rio.encoded_nodata == 0
    with rasterio.open(f'ZARR:"{after}":/reflectance') as band:
        raw = band.read()
        assert (band.crs.to_epsg(), band.nodata, band.transform) == (32633, 0, new.rio.transform())
        values = np.where(raw == 0, np.nan, raw * band.scales[0])
    assert np.allclose(values, new.reflectance.values, equal_nan=True)
    return values.size


def spatialdata(before, after):
    """Every element equal, and as many of them."""
    import spatialdata
    from spatialdata.testing import assert_spatial_data_objects_are_identical

    old, new = spatialdata.read_zarr(before), spatialdata.read_zarr(after)
    assert_spatial_data_objects_are_identical(old, new)
    return len(list(new.gen_elements()))


def ome(before, after):
    """Every level that ome-zarr-py finds is equal, and every group validates as 0.5."""
    import numpy as np
    import ome_zarr_models
    import zarr
    from ome_zarr.io import parse_url
    from ome_zarr.reader import Reader

    count = 0
    for group in [after, *sorted(path.parent for path in Path(after).rglob("zarr.json"))]:
        attributes = dict(zarr.open(str(group), mode="r").attrs)
        kinds = set(attributes.get("ome", ())) - {"version"}
        if kinds & {"multiscales", "plate", "well", "labels"}:
            model = ome_zarr_models.open_ome_zarr(zarr.open_group(str(group), mode="r"), version="0.5")
            assert model.ome_attributes.version == "0.5", model
        if "multiscales" not in kinds:
            continue
        twin = Path(before) / Path(group).relative_to(after)
        found = [list(Reader(parse_url(str(place)))())[0] for place in (twin, group)]
        old, new = (node.data for node in found)
        assert len(old) == len(new) == len(attributes["ome"]["multiscales"][0]["datasets"])
        for one, other in zip(old, new):
            assert one.dtype.newbyteorder("=") == other.dtype.newbyteorder("=")
            assert np.array_equal(np.asarray(one), np.asarray(other))
            count += 1
        shown = dict(found[1].metadata)
        if "coordinateTransformations" not in found[0].metadata:  # 0.1 to 0.3 have no scales
            del shown["coordinateTransformations"]
        assert found[0].metadata == shown
    return count


def newest(before, after):
    """Every group validates as OME-Zarr 0.6, and images are what ome-zarr-models makes of their 0.4."""
    import ome_zarr_models
    import zarr
    from ome_zarr_models.v04.multiscales import Multiscale as Multiscale04
    from ome_zarr_models.v06.multiscales import Multiscale as Multiscale06

    count = 0
    for group in sorted(path.parent for path in Path(after).rglob("zarr.json")):
        attributes = dict(zarr.open(str(group), mode="r").attrs)
        kinds = set(attributes.get("ome", ())) - {"version"}
        if kinds & {"multiscales", "plate", "well", "labels"}:
            ome_zarr_models.open_ome_zarr(zarr.open_group(str(group), mode="r"), version="0.6")
            count += 1
        twin = Path(before) / group.relative_to(after)
        for number, image in enumerate(attributes.get("ome", {}).get("multiscales", ())):
            old = zarr.open_group(str(twin), mode="r").attrs["multiscales"][number]
            assert Multiscale04.model_validate(old).to_version("0.6") == Multiscale06.model_validate(image)
    return count


if __name__ == "__main__":
    answers = []
    for what, before, after in json.load(sys.stdin):
        try:
            answers.append(globals()[what](before, after))
        except Exception:  # noqa: BLE001 - whatever it is, it is the answer
            answers.append(traceback.format_exc())
    print(json.dumps(answers))
