"""Divides arrays with a new chunk grid into boxes that fit the memory."""
