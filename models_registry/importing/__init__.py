"""How a version comes to be, from the request to ready.

1. `services.imports` (`services.uploads` for what is sent part by part) checks the wish and numbers the
   version.
2. `sources` says what may be read: a directory, an upload, or what another app has registered, such as a
   repository on a hub.
3. `reconcilers.imports` starts a job in a staging area of the store: `directory_import`, `upload_import`, or
   the program that the source names. Jobs have no Django and no database; they read what nobody trusts.
4. The job copies and hashes (`directory`, `upload`, `transfer`); `judging` says what the files are and
   whether they may enter; `results` is what it leaves.
5. `reconcilers.imports.Publish` makes blobs of them, looks at their signatures, and the version is ready.
"""
