"""Source formats: one module or folder each describes an archive as `Archive`."""
