"""Archives made of references to parts of other files: kerchunk JSON and kerchunk Parquet.

Sources: kerchunk's specification (https://fsspec.github.io/kerchunk/spec.html), and what kerchunk 0.2.10,
VirtualiZarr 2.5 and fsspec 2026.9 (`fsspec.implementations.reference`) write and read. References are data
from strangers: nothing in them is executed, and they are only followed to places that the user permits.
"""
