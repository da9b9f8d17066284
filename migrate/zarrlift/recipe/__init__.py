"""The changes requested by the user, parsed."""
