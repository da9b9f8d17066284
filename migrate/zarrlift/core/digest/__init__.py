"""A digest of the values of an array that does not depend on how they are stored."""
