from tests.slipway.conftest import terminal

__all__ = ["terminal"]
