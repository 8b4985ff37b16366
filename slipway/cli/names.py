from slipway.exits import CommandFailed, Exit


def split_version(label: str) -> tuple[str, str]:
    """`model:version` in its two parts."""
    model, colon, version = label.partition(":")
    if not (model and colon and version):
        raise CommandFailed(f"'{label}' is not of the form MODEL:VERSION, such as chat:v2.", Exit.USAGE)
    return model, version
