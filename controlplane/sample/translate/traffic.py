"""`python -m controlplane.sample.translate.traffic --url URL --rps N`: product pictures, as steady light
load."""

import base64
import sys
import time

import httpx2

from controlplane.sample import traffic
from controlplane.sample.traffic import SampleAnswer, SampleTraffic
from controlplane.sample.translate import pictures


class ProductTraffic(SampleTraffic):
    """Sends a new picture each time."""

    async def _ask(self, client: httpx2.AsyncClient) -> SampleAnswer:
        picture = pictures.draw(self._chance.getrandbits(31)).png()
        began = time.monotonic()
        version = ""
        try:
            response = await client.post(f"{self._url}/run", content=picture)
            version = response.headers.get("x-slipway-version", "")
            is_whole = response.status_code == 200 and _is_picture(response.json())
            fault = "" if is_whole else f"status {response.status_code}"
        except httpx2.HTTPError as error:
            fault = type(error).__name__
        except ValueError:
            fault = "not JSON"
        return SampleAnswer(version, fault, time.monotonic() - began)


def _is_picture(document: dict[str, dict[str, str]]) -> bool:
    return base64.b64decode(document["picture"]["base64"]).startswith(b"\x89PNG")


if __name__ == "__main__":
    raise SystemExit(traffic.main(sys.argv[1:], ProductTraffic))
