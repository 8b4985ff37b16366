"""Over the network. The only importer of the package `kubernetes`."""
