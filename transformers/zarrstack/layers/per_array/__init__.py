"""`PerArray`: applies to each array the layers that its metadata names."""
