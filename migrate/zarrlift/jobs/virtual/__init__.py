"""Results without copied chunks: references into the objects of the source (docs/design/decisions.md)."""
