"""The overlay layer: changes to an archive, stored separately."""
