"""Reports as one HTML page each: it needs no other file, makes no request, and runs nothing of an archive."""
