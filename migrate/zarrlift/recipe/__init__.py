"""What the user wants changed, parsed."""
