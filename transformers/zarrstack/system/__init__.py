"""Clock, fork safety, file locks, rate limits, transient errors."""
