"""Local files: reads, writes, and files that appear complete or not at all."""
