"""What all formats share: directories, metadata documents, the walk of a hierarchy."""
