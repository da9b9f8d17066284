"""Format facts without I/O: data types, chunk grids, codecs, N5, the 2022 draft, restricted pickles."""
