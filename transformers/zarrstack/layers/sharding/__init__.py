"""The sharding layer: stores the chunks of an array in shards."""
