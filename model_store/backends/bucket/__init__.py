"""The store in an S3-compatible bucket; see docs/adr/0044-model-store-on-a-bucket.md.

    bodies/<id>                              the bytes of one content, complete, never changed
    blobs/ab/<sha256>.<size>                 a record: which body is this content, and who holds it
    staging/<key>/lease                      who writes the staging area
    staging/<key>/begun/<id>                 a body that the staging area has begun, complete or not
    staging/<key>/held/<sha256>.<size>.<id>  a content that it holds: its own body, or that of a blob
    staging/<key>/parts/<key>/<offset>.<by>  pieces of a file on its way
    staging/<key>/notes/<name>, stop
    uploads/<key>/...                        what has come of an upload: `upload_buffer`
    quarantine/<sha256>.<id>                 a body that was found damaged, for people to look at

What is published is so by one conditional write of its record. Everything else is private to a staging area,
and whatever a crash leaves is found below the staging area's name.
"""
