"""The version of this distribution; other modules need it too, such as workers on other machines."""

__version__ = "0.1.0"
