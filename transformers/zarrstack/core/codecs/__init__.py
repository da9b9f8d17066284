"""The codecs: one module each; `pipeline` runs a chain of them."""
