"""Reports for people: blocks of a result, made once, and their renderings as text and as HTML."""
