"""The layer that reads chunks ahead."""
