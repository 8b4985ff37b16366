"""How fast the registry is: `python -m perf.registry [import] [hub] [push] [lists] [collection] [peers]`
prints a table of each, or of all but peers. Every figure stands beside its limit, or beside a peer that was
measured in the same run.

Import: a directory of safetensors shards is hashed by coreutils' `sha256sum` on one core, imported by the
process that Slipway starts for it, then imported again under another name; the store is on the same disk.
Hub: a repository on a hub of the tests, on this machine, is fetched by `huggingface_hub.snapshot_download`
and by the process that Slipway starts for it; then a fetch is killed half way and begun again. Push: a
directory goes over a slow line, and whoever pushes it is killed several times.
Lists and search: what REST and the pages answer over many models and versions, on SQLite and on PostgreSQL,
by Django's client in this process: all of the application, its middleware and its templates over a warm
connection to the database, without a socket. Collection: a store of small blobs of which versions need every
second one. Peers: the CPU that lists and search take beside MLflow's; `perf/registry/peers.py` says how to
install that.
"""
