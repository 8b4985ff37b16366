"""Requests to servers that are not ours: addresses judged, time and size bounded, faults in words."""
