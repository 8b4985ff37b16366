from clusters.services.deployments import lay_out_again
from model_store.events import BlobRepaired


def lay_out_repaired(event: BlobRepaired) -> None:
    """At once, so that a worker that restarts finds its files; one that did not find them asks for them."""
    lay_out_again(event.sha256)
