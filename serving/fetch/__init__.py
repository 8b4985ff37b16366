"""`python -m serving.fetch`: brings the files of one version to a machine, before a worker starts there.

An init container runs it with a directory of the machine mounted. The directory is kept as the control plane
keeps its own (`model_store.backends.node_cache`, which knows no Django): each content once for all versions,
verified, a version's directory complete or not there.
"""
