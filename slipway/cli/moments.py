from datetime import datetime

from slipway.cli.context import CliContext


def with_zone(context: CliContext, moment: str) -> str:
    """A moment that names no time zone is one of UTC, and that is said."""
    try:
        given = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    if given.tzinfo is None:
        plain = given.isoformat()
        context.progress.print(
            f"{moment} is taken as UTC; for another time zone append it, as in {plain}+02:00.", markup=False
        )
        return f"{plain}Z"
    return moment
