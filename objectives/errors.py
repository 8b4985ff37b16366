from common.errors import Invalid


class InvalidObjective(Invalid):
    """An objective that cannot be measured or kept."""
