from collections.abc import Mapping
from typing import Any

from accounts.states import Right
from tests.accounts.rights_matrix.scene import Access, Route, Scene, new_name
from tests.images.builders import reference

IMAGE = "images/{image}/"


def _image(scene: Scene) -> Mapping[str, Any]:
    return {"image": scene.image.name}


def _deprecated(scene: Scene) -> Mapping[str, Any]:
    return {"image": scene.deprecated_image.name}


def _new(scene: Scene) -> Mapping[str, Any]:
    name = new_name()
    return {
        "name": name,
        "team": scene.team.name,
        "engine": "vllm",
        "engine_version": "0.10.0",
        "reference": reference(name),
        "cuda_version": "12.8",
    }


def _elsewhere(scene: Scene) -> Mapping[str, Any]:
    """A registry that the installation may not ask: each preset says so."""
    return {"registry": "127.0.0.1:1", "team": scene.team.name}


def _because(scene: Scene) -> Mapping[str, Any]:
    return {"reason": "because"}


ROUTES = [
    Route("GET", "images/", Access.SIGNED_IN, owned=False),
    Route("POST", "images/", Right.FLEET_OPERATE, body=_new, status=201, owned=False),
    Route("POST", "images/refresh/", Right.FLEET_OPERATE, body=_elsewhere, owned=False),
    Route("GET", "images/fit/", Access.SIGNED_IN, owned=False, query="?engine=vllm&gpu=H100&driver=550"),
    Route("GET", IMAGE, Right.READ, fill=_image),
    Route("PATCH", IMAGE, Right.FLEET_OPERATE, fill=_image, body=lambda scene: {"description": "x"}),
    Route("POST", f"{IMAGE}deprecate/", Right.FLEET_OPERATE, fill=_image, body=_because),
    Route("POST", f"{IMAGE}reinstate/", Right.FLEET_OPERATE, fill=_deprecated, body=_because),
    Route(
        "POST",
        f"{IMAGE}clear-pull-failure/",
        Right.FLEET_OPERATE,
        fill=lambda scene: {"image": scene.unpulled_image.name},
        body=lambda scene: {"cluster": scene.cluster.name, "reason": "because"},
    ),
    Route(
        "POST",
        f"{IMAGE}trials/",
        Right.FLEET_OPERATE,
        fill=_image,
        body=lambda scene: {"gpu": "H100", "outcome": "works"},
    ),
]
