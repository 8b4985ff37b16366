from pydantic import Field
from pydantic_settings import BaseSettings


class Settings(BaseSettings):
    """Optimised versions"""

    optimization_memory_gb: float = Field(
        0,
        ge=0,
        description="Memory in GB that the job of a recipe may need; one that is estimated to need more is "
        "refused. 0: as much as its host has free.",
    )
    optimization_hours: float = Field(
        24, gt=0, description="Hours after which the job of a recipe, or of an accuracy check, is ended."
    )
    optimization_images: dict[str, str] = Field(
        default_factory=dict,
        description="Image of the catalogue, by its name, in which a family of recipes runs as a Job of a "
        'cluster: {"compressor": "recipes-compressor"}. Recipes without packages of their own run in the '
        "cluster's jobs_image.",
    )
