"""Which configurations a search looks at next. Pure: rounds and results in, runs out."""
