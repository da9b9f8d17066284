"""What people and machines are shown: text, tables, JSON."""
