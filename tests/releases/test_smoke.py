"""Questions to a candidate's workers, over HTTP."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from releases.smoke import AppProber, HttpProber
from tests.serving.runtime.rig import service


class Babbler(BaseHTTPRequestHandler):
    """Answers what a small model may: any character."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = json.dumps({"choices": [{"text": "a\0b\ud800c", "finish_reason": "length"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Babbler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_answer_with_characters_that_no_database_keeps_is_a_good_one(url: str) -> None:
    seen = HttpProber().ask(worker="chat-r1-0", base_url=url, number=0, model="chat:v1", timeout_seconds=10)
    assert (seen.answer, seen.fault.text) == ("a\ufffdb?c", "")


APP = """
from slipway import serve

app = serve.App(processes=1)

@app.post("/good", warm_up={"number": 1})
def good(request):
    return request.number

@app.post("/grows-bad", warm_up={"number": 2})
def bad(request):
    app.asked = getattr(app, "asked", 0) + 1
    if app.asked > 1:
        raise serve.Problem(500, "Out of order")
"""


@pytest.mark.process
def test_a_service_of_its_own_code_is_asked_for_its_examples_in_turn(tmp_path: Path) -> None:
    with service(tmp_path / "app", APP) as running:
        asked = [
            AppProber().ask(worker="w", base_url=running.url, number=turn, model="m:v1", timeout_seconds=30)
            for turn in (0, 1)
        ]
    assert (asked[0].prompt, asked[0].answer, asked[0].fault.text) == ("POST /good", "1", "")
    assert asked[1].prompt == "POST /grows-bad"
    assert "500" in asked[1].fault.text
