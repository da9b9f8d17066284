"""Multiscale pyramids, viewers' metadata and OME-NGFF inside N5."""
