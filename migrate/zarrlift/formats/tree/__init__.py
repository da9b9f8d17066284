"""Shared by all formats: directories, metadata documents, the walk of a hierarchy."""
