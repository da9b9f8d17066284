"""The log layer: one event per operation, and totals."""
