from hubs.services import syncs
from models_registry.events import ModelDeleted


def forget_sources(event: ModelDeleted) -> None:
    """Delete the sources in the same transaction: no secret outlives the model."""
    syncs.forget_hub_sources(event.model_id)
