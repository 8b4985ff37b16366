from common.errors import Conflict, Invalid, Missing


class UnknownImage(Missing):
    """There is no such image, or the actor may not see it."""


class ImageNameTaken(Conflict):
    """There is an image of this name, or of this content, already."""


class ImageNotDeprecated(Conflict):
    """It is not deprecated."""


class ImageFrozen(Conflict):
    """What an image contains never changes."""


class InvalidImage(Invalid):
    """What was said about an image cannot be so; `fields` maps its fields to what is wrong."""
