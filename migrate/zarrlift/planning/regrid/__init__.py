"""How arrays of other chunks are cut into boxes that fit the memory."""
