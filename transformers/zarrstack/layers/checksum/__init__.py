"""The checksum layer: verifies every value against a recorded checksum."""
