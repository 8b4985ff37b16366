"""What samples play with: the model, its versions, its service and the requests."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class SampleStory:
    """The model that the sample is about. `training` and `traffic` are modules that are run."""

    model: str
    task: str
    about: str
    engine: str
    service_about: str
    training: str
    training_about: str
    traffic: str
    ready_path: str
    """Answered with 200 by a worker that is ready."""
    shown_path: str
    messages: dict[str, str]
    service: str
    directory: str
    """Of the trained versions, in the home's `imports`."""
    has_code: bool = False
    replicas: int = 2
    requests_per_second: float = 6


GOOD = {"v1": "Half of the training.", "v2": "Trained to the end."}


BAD = {"v3": "Slow, and fails one request in ten: for the judge."}


TEXT = SampleStory(
    model="docstring-writer",
    task="text-generation",
    about="A small Llama trained on the docstrings of Python's standard library.",
    engine="transformers",
    service_about="Writes docstrings. The sample.",
    training="controlplane.sample.train",
    training_about="Training a small model on the standard library's docstrings (about a minute, once).",
    traffic="controlplane.sample.traffic",
    ready_path="/v1/models",
    shown_path="/v1/completions",
    messages=GOOD | BAD,
    service="docs",
    directory="sample",
)


OPTIMIZE = replace(
    TEXT,
    model="docstring-writer-small",
    about="The small Llama of the sample, and optimised versions of it.",
    service_about="Writes docstrings. The sample of optimised versions.",
    service="docs-small",
)
"""A model of its own: the numbers of its versions are the recipes', not those of other samples."""


VISION = SampleStory(
    model="shapes",
    task="image-classification",
    about="A small network that names drawn shapes, with the service around it.",
    engine="app",
    service_about="Names the shape in a picture. The vision sample.",
    training="controlplane.sample.vision.train",
    training_about="Training a small vision model on drawn shapes (some seconds, once).",
    traffic="controlplane.sample.vision.traffic",
    ready_path="/openapi.json",
    shown_path="/classify",
    messages=GOOD | BAD,
    service="shapes",
    directory="sample-vision",
    has_code=True,
)


TRANSLATE = SampleStory(
    model="translate-image",
    task="image-to-image",
    about="Translates the text in product pictures: a graph of nine tasks.",
    engine="app",
    service_about="Translates product pictures. The sample of task graphs.",
    training="controlplane.sample.translate.train",
    training_about="Training a small U-Net and a small Transformer on generated data (a minute, once).",
    traffic="controlplane.sample.translate.traffic",
    ready_path="/openapi.json",
    shown_path="/run",
    messages=GOOD | BAD,
    service="translate",
    directory="sample-translate",
    has_code=True,
    replicas=1,
    requests_per_second=0.5,
)


TIDE = SampleStory(
    model="pictures",
    task="image-classification",
    about="A small network that rates pictures, with the service around it.",
    engine="app",
    service_about="Rates pictures, at once or whole albums as jobs. The tide sample.",
    training="controlplane.sample.tide.train",
    training_about="Training a small network that rates pictures (some seconds, once).",
    traffic="controlplane.sample.tide.traffic",
    ready_path="/openapi.json",
    shown_path="/rate",
    messages={"v1": "Requests and jobs of one service."},
    service="pictures",
    directory="sample-tide",
    has_code=True,
    replicas=4,
)
