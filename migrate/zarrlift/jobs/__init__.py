"""Jobs: run, resume, publish, finish, undo, and their status."""
