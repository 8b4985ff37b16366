class SampleFailed(Exception):
    """The sample failed: one line or several for the terminal say what went wrong, and where to look."""
