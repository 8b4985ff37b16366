"""How fast faults are found and machines come back, and what they cost. Pure: incidents in, figures out."""
