"""The contract of storage transformers, `stack`, the registry and its plug-ins."""
