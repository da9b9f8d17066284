"""Changes beside an archive that stays as it is."""
