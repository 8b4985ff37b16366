"""Who may call which route of the REST API. A route that is missing here fails `test_rights_matrix.py`.

To add one: name its method and path as the URLconf has it, the right it needs in the team that owns the
object (or one of `Access`), how to fill its path and its body for a scene, and the status on success. Every
module here may have `ROUTES`.
"""

from importlib import import_module
from pkgutil import iter_modules

from tests.accounts.rights_matrix.scene import Access, Route, Scene

ROUTES: list[Route] = [
    route
    for module in iter_modules(__path__)
    for route in getattr(import_module(f"{__name__}.{module.name}"), "ROUTES", ())
]

__all__ = ["ROUTES", "Access", "Route", "Scene"]
