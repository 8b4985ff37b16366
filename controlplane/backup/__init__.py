"""Copies of an installation that is at work, and how one becomes an installation again (docs/PRODUCTION.md).

    DIR/blobs/ab/<sha256>           files of models, shared by all backups of the directory
    DIR/backups/<time>/             manifest.json, the database, blobs.sha256, heads.jsonl

The database is copied first, and what its rows need of the store is held from then on: a collection that runs
meanwhile takes nothing away that the copy names. Keys lie elsewhere.
"""
