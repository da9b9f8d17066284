"""One event for each operation, and totals."""
