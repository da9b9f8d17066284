"""Names that no code of ours calls or reads, each group with its caller: vulture's list of what is used.

`.ci/tasks.py` runs `vulture` over both packages with this file, so that a name without a caller is found.
"""
# ruff: noqa: B018, F821

# Python: the attribute names of a module, what `inspect.signature` shows, and the protocol of files.
__dir__
_.__signature__
_.seekable
_.readinto

# IPython and Jupyter.
_._repr_html_

# zarr-python: of stores, of their test suite (zarr.testing.store) and of codec pipelines.
_.supports_deletes
_.buffer_cls
_.store_not_open
_.DecodedChunks

# numcodecs, whose switch it is.
_.use_threads

# argparse, which formats the help, and the command line, which finds the function of a command by its name.
_._fill_text
_._split_lines
_._format_action_invocation
_.add_usage
demo
completion

# tqdm.
_.bar_format
_.monitor_interval
_.last_print_t
_.start_t

# By name, from tables: of conventions (conventions/__init__.py), of codecs (core/codecs/registry.py) and of
# reports (report/blocks.py).
_.Hdmf
_.Ome
_.SpatialData
_.Xarray
_.FromNumcodecs
_.ObjectCategorize
_.NumpyBytes
_.Gzip
_.Crc32c
_.HdmfObjects
_.ImageCodec
_.Lz4
_.Lz4Bare
_.Lz4Block
_.Json2
_.MsgPack2
_.Pickle
_.PCodec
_.ImagecodecsZfp
_.Bz2
_.ScaleOffset
_.CastValue
_.Lzma
_.VlenUtf8
_.VlenBytes
_.VlenArray
_.verification_brief_lines
_.verification_blocks
_.update_blocks

# `base/sync_calls.py` and `base/transformer.py`, from the namespace of a class.
_.awaits_only_below

# Users in Python: what an outcome, a layer, a report and its JSON say (docs/reference).
_.raise_for_problems
_.KINDS
_.clear_cache
_.bytes_written
_.groups_total
_.hits
_.memory_hits
_.disk_hits
_.shared_hits
_.waiting_bytes
_.bytes_served
_.bytes_fetched
_.memory_entries
_.open_bytes
