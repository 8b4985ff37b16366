"""How the web process looks for garbage that refers to itself."""

import gc


def settle() -> None:
    """Once all is loaded: never look at that again, and at new objects only when there are many.

    A request makes tens of thousands of objects, and nearly all go when nothing refers to them any more. With
    Python's own thresholds one request in twenty waits, 10 to 30 ms, until a third of a million objects
    that stay anyway have been looked at. At these a collection comes once in several requests, and a full one
    once in thousands; between them a process keeps some megabytes more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
