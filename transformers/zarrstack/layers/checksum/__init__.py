"""Checks every value against a recorded checksum."""
