"""The ways in which a version's files come to pods, a file each, and which of them a cluster takes."""
