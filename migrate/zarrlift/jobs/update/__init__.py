"""Brings a result up to date with a source that has changed since."""
