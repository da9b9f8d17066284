"""Job arrays: one job in a fixed number of parts, each run by itself, and gathered at the end."""
