"""Output for people and machines: text, tables, JSON."""
