"""Batches: many archives as one job, each run by the engine of `migrate`."""
