"""Resuming a job: checks of identity, lost work, changed sources, moved places."""
