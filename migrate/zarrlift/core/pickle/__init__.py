"""A restricted unpickler of plain data."""
