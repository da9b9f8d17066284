"""What hdmf-zarr reads: `read.py FILE...` prints one JSON object, by file, as the fixtures' expectations are.

`read.py --convert SOURCE DESTINATION` lets hdmf-zarr itself convert a Zarr v2 file, and prints what went
wrong, or null.
"""

import json
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "fixtures" / "writers" / "hdmf"))
import reading


def convert(source, destination):
    """The error of hdmf-zarr's own conversion; None where it succeeds."""
    from hdmf_zarr.nwb_zarrv2 import NWBZarrV2IO

    warnings.simplefilter("ignore")
    try:
        NWBZarrV2IO.convert_to_v3(source, destination, allow_pickle=True)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    if sys.argv[1] == "--convert":
        answer = convert(*sys.argv[2:])
    else:
        answer = {path: reading.read(path) for path in sys.argv[1:]}
    json.dump(answer, sys.stdout)
