"""Planning of graphs: pure functions of profiles and machines, without Django, clocks or networks."""
