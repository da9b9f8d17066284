"""Local files: reading, writing, and files that appear whole or not at all."""
