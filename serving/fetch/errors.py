"""Why a version did not come, in words that say what to do; the number is the exit status."""


class FetchError(Exception):
    status = 1


class Refused(FetchError):
    """The control plane does not give it to us: trying again changes nothing."""

    status = 3


class NoRoom(FetchError):
    status = 4


class Unreachable(FetchError):
    """Nothing came for as long as we wait."""

    status = 5


class WrongContent(FetchError):
    status = 6
