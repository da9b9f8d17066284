"""OME-NGFF."""
