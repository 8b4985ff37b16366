from common.errors import SlipwayError


class BackupError(SlipwayError):
    """No backup can be made or restored as asked; the message says what to do."""
