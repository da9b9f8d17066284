"""Icechunk repositories (https://icechunk.io) as places of archives; needs the extra `icechunk`."""
