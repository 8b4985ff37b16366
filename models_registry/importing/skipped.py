"""What is no part of a version, wherever its files come from."""

SKIPPED_DIRECTORIES = {
    ".git": "the history of the source repository is not part of a version",
    ".cache": "download caches are not part of a version",
    ".huggingface": "download caches are not part of a version",
}
SKIPPED_FILES = {
    ".git": "the link to a source repository is not part of a version",
    ".DS_Store": "it belongs to a desktop",
}


def why_skipped(path: str) -> str:
    """Why the file at this path in a version is left out; empty: it is not."""
    *directories, name = path.split("/")
    known = (SKIPPED_DIRECTORIES[part] for part in directories if part in SKIPPED_DIRECTORIES)
    return next(known, SKIPPED_FILES.get(name, ""))
