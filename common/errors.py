class SlipwayError(Exception):
    """Something went wrong, in the domain's words: `str(error)` tells a person what, and what to do."""
