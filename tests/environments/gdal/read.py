"""Reads arrays of Zarr v3 with GDAL or netcdf-c, and prints them as JSON, as zarrita's read.mjs does.

python read.py gdal|netcdf-c ROOT [PATH ...]; without paths, every array
"""

import base64
import json
import sys
import warnings
from pathlib import Path

import numpy as np


def gdal(root, path):
    import rasterio

    with rasterio.open(f"{root}/{path}", driver="Zarr") as dataset:
        return dataset.read()[0] if dataset.count == 1 else dataset.read()


def netcdf(root, path):
    import netCDF4

    group, _, name = path.rpartition("/")
    with netCDF4.Dataset(f"file://{root}/{group}#mode=zarr,file") as dataset:
        dataset.set_auto_maskandscale(False)
        return dataset[name][...]


def versions():
    import netCDF4
    import rasterio

    return {"gdal": rasterio.__gdal_version__, "netcdf-c": netCDF4.__netcdf4libversion__.split()[0]}


def main(reader, root="", *paths):
    warnings.simplefilter("ignore")
    if reader == "versions":
        return print(json.dumps(versions()))
    read = {"gdal": gdal, "netcdf-c": netcdf}[reader]
    if not paths:
        files = sorted(Path(root).rglob("zarr.json"))
        arrays = [file.parent for file in files if json.loads(file.read_text())["node_type"] == "array"]
        paths = ["" if folder == Path(root) else str(folder.relative_to(root)) for folder in arrays]
    answers = {}
    for path in paths:
        try:
            values = np.ascontiguousarray(read(root, path))
            answers[path] = {
                "dtype": str(values.dtype),
                "numpy": values.dtype.str,
                "shape": values.shape,
                "base64": base64.b64encode(values.tobytes()).decode(),
                "attributes": None,
                "dimension_names": None,
            }
        except Exception as error:  # each reader has its own
            answers[path] = {"refused": f"{type(error).__name__}: {error}"}
    print(json.dumps(answers))


main(*sys.argv[1:])
