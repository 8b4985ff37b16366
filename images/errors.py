from common.errors import Conflict, Invalid, Missing


class UnknownImage(Missing):
    """There is no such image, or the actor may not see it."""


class ImageNameTaken(Conflict):
    """There is an image of this name, or of this content, already."""


class ImageNotDeprecated(Conflict):
    """The image is not deprecated."""


class ImageFrozen(Conflict):
    """The contents of an image never change."""


class InvalidImage(Invalid):
    """The given facts of an image are invalid; `fields` maps its fields to what is wrong."""
