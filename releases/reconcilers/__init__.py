"""How a release advances, and what its steps share."""
