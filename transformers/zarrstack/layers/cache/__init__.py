"""The cache layer: memory and disk tiers in front of a slower store."""
