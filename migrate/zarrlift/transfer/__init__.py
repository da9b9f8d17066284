"""Moves the chunks of one task: relink, reframe, recode, regrid."""
