"""The version of both distributions, zarrstack and zarrlift."""

__version__ = "0.1.0"
