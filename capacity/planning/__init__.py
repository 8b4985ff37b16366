"""Planners of capacity: pure functions of what was observed, without Django, clocks or networks."""
