"""`python -m controlplane.sample.vision.traffic --url URL --rps N`: pictures of shapes, as steady light
load."""

import sys
import time

import httpx2
import numpy as np

from controlplane.sample import traffic
from controlplane.sample.traffic import SampleAnswer, SampleTraffic
from controlplane.sample.vision import pictures


class PictureTraffic(SampleTraffic):
    """Sends a new picture each time."""

    async def _ask(self, client: httpx2.AsyncClient) -> SampleAnswer:
        seed = self._chance.getrandbits(31)
        picture = pictures.draw(seed % pictures.COUNT, np.random.default_rng(seed))
        began = time.monotonic()
        version = ""
        try:
            response = await client.post(f"{self._url}/classify", json={"pixels": picture.ravel().tolist()})
            version = response.headers.get("x-slipway-version", "")
            is_whole = response.status_code == 200 and "shape" in response.json()
            fault = "" if is_whole else f"status {response.status_code}"
        except httpx2.HTTPError as error:
            fault = type(error).__name__
        except ValueError:
            fault = "not JSON"
        return SampleAnswer(version, fault, time.monotonic() - began)


if __name__ == "__main__":
    raise SystemExit(traffic.main(sys.argv[1:], PictureTraffic))
