"""Write an NWB file as hdmf-zarr before 0.14 does: `nwb_source.py FILE MEGABYTES CODEC`.

It runs in an environment of its own; pins: fixtures/writers/hdmf-0.13.txt. A recording of int16 with 64
channels, in chunks of 30,000 samples, noise over a slow wave; electrodes with references to their group; a
table of units with ragged spike times. CODEC is `default`, hdmf-zarr's own (blosc with lz4), or `gzip`,
neuroconv's.
"""

import os
import sys
from datetime import UTC, datetime

os.environ["NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE"] = "1"  # our own pickles; numcodecs asks
import numpy as np
from hdmf.data_utils import GenericDataChunkIterator
from hdmf_zarr import ZarrDataIO
from hdmf_zarr.nwb import NWBZarrIO
from numcodecs import GZip
from pynwb import NWBFile
from pynwb.ecephys import ElectricalSeries

CHANNELS, SAMPLES = 64, 30_000


class Recording(GenericDataChunkIterator):
    """Blocks of samples, made as they are asked for."""

    def __init__(self, blocks):
        self.blocks = blocks
        super().__init__(buffer_shape=(SAMPLES, CHANNELS), chunk_shape=(SAMPLES, CHANNELS))

    def _get_data(self, selection):
        rows = selection[0]
        rng = np.random.default_rng(rows.start)
        slow = 200 * np.sin(np.arange(rows.start, rows.stop)[:, None] / 500 + np.arange(CHANNELS))
        return (slow + 20 * rng.standard_normal((rows.stop - rows.start, CHANNELS))).astype("i2")

    def _get_maxshape(self):
        return (self.blocks * SAMPLES, CHANNELS)

    def _get_dtype(self):
        return np.dtype("i2")


def main():
    path, megabytes, codec = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    begin = datetime(2024, 1, 2, tzinfo=UTC)
    file = NWBFile(session_description="a recording", identifier="benchmark", session_start_time=begin)
    device = file.create_device("probe")
    group = file.create_electrode_group("shank", description="a shank", location="CA1", device=device)
    for _ in range(CHANNELS):
        file.add_electrode(location="CA1", group=group)
    region = file.create_electrode_table_region(list(range(CHANNELS)), "all")
    options = {"compressor": GZip(4)} if codec == "gzip" else {}
    data = ZarrDataIO(data=Recording(megabytes * 1_000_000 // (SAMPLES * CHANNELS * 2)), **options)
    file.add_acquisition(ElectricalSeries(name="raw", data=data, electrodes=region, rate=30000.0))
    rng = np.random.default_rng(1)
    for _ in range(200):
        file.add_unit(spike_times=np.sort(rng.random(500) * 60))
    with NWBZarrIO(path, mode="w") as io:
        io.write(file)


if __name__ == "__main__":
    main()
