"""Threads and processes that run tasks."""
