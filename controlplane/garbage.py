"""How the processes of a server look for garbage that refers to itself."""

import gc

import django


def set_up_django() -> None:
    """`django.setup()` in four fifths of the time: while modules are loaded nobody looks for garbage among
    them, and afterwards nobody looks at them again."""
    gc.disable()
    try:
        django.setup(set_prefix=False)
        gc.freeze()
    finally:
        gc.enable()


def collect_often_and_little() -> None:
    """Load the views, too, and from now on look only at objects that were made since.

    A request leaves some thousand objects that refer to each other: filters, forms, serializers. With the
    thresholds of Python one request in some hundreds waits for a look at everything, modules and views
    included: 50 to 150 ms on a slow machine. With these a look at the newest objects comes every few requests
    and takes 2 to 8 ms; one at all that were made since, after some 300,000 new ones.
    """
    from django.urls import get_resolver

    _ = get_resolver().url_patterns
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 3, 20)
