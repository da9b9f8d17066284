"""The codecs, one module each, and `pipeline`, which runs a chain of them."""
