"""The first page: what waits for me, what moves, how busy the fleet is, how the parts of the stack fare."""
