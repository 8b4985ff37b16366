from clusters.services.deployments import lay_out_again
from model_store.events import BlobRepaired


def lay_out_repaired(event: BlobRepaired) -> None:
    """Lay the files out at once, so that a worker that restarts finds them."""
    lay_out_again(event.sha256)
