class SlipwayError(Exception):
    """Something went wrong in the domain's words: `str(error)` is a sentence for a person that says what to do."""
