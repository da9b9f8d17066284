"""The storage transformers, each in a module or package."""
