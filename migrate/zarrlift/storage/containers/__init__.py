"""Files and directories that hold an archive inside, such as a zip file: a table, and one module per kind."""
