"""The storage transformers: one module or folder each."""
