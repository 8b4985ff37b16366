class SampleFailed(Exception):
    """One line for the terminal, or several: what went wrong, and where to look."""
