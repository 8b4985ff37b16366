"""A stand-in for the `vllm` program: the options and the HTTP of `vllm serve` that the worker relies on.

FAKE_VLLM_LOAD_SECONDS passes before it listens, and the file FAKE_VLLM_LOADS_UNTIL is there; FAKE_VLLM_EXIT
makes it complain and exit with that status; FAKE_VLLM_NOTES names a file that gets a JSON line for its
arguments and for every answer that is abandoned.
"""

import argparse
import json
import os
import socket
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WORDS = tuple("abcdefghijklmnop")
TOKEN_SECONDS = 0.005


def note(**what: Any) -> None:
    if notes := os.environ.get("FAKE_VLLM_NOTES"):
        with Path(notes).open("a") as file:
            file.write(json.dumps(what) + "\n")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def answer(body: dict[str, Any]) -> tuple[list[str], str, int]:
    """Words of the answer, why it ends, and tokens of the prompt."""
    prompt = body.get("prompt") or " ".join(message["content"] for message in body["messages"])
    length = int(body.get("max_tokens") or 8)
    words = [WORDS[(len(prompt) + index) % len(WORDS)] + " " for index in range(length)]
    stops = body.get("stop") or []
    text = "".join(words)
    found = [at for stop in ([stops] if isinstance(stops, str) else stops) if (at := text.find(stop)) >= 0]
    if not found:
        return words, "length", len(str(prompt).split())
    kept, rest = [], text[: min(found)]
    for word in words:
        kept.append(rest[: len(word)])
        rest = rest[len(word) :]
        if not rest:
            break
    return kept, "stop", len(str(prompt).split())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    names: tuple[str, ...] = ()

    def log_message(self, *arguments: Any) -> None:
        return

    def do_GET(self) -> None:
        if self.path == "/health":
            self._send(200, b"")
        elif self.path == "/metrics":
            self._send(200, b"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0.0\n")
        else:
            self._send(404, b"{}")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if body["model"] not in self.names:
            return self._refuse(404, "no such model")
        if body.get("temperature") == 99:
            return self._refuse(400, "temperature must be in [0, 2]")
        chat = self.path.endswith("chat/completions")
        words, reason, prompt_tokens = answer(body)
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": len(words),
            "total_tokens": prompt_tokens + len(words),
        }
        head = {
            "id": "cmpl-1",
            "object": "chat.completion" if chat else "text_completion",
            "model": body["model"],
        }
        if not body.get("stream"):
            time.sleep(TOKEN_SECONDS * len(words))
            text = "".join(words)
            content = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            choice = {"index": 0, **content, "finish_reason": reason}
            return self._send(200, json.dumps({**head, "choices": [choice], "usage": usage}).encode())
        with_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for index, word in enumerate(["", *words] if chat else words):
                if chat:
                    content = {"delta": {"content": word, **({} if index else {"role": "assistant"})}}
                else:
                    content = {"text": word}
                self._event({**head, "choices": [{"index": 0, **content, "finish_reason": None}]})
                if body.get("user") == "break-off" and index == 3:
                    self.close_connection = True
                    return None
                if body.get("user") == "error" and index == 3:
                    self._event({"error": {"message": "out of blocks", "type": "server_error", "code": 500}})
                    break
                time.sleep(TOKEN_SECONDS)
            end = {"delta": {}} if chat else {"text": ""}
            self._event({**head, "choices": [{"index": 0, **end, "finish_reason": reason}]})
            if with_usage:
                self._event({**head, "choices": [], "usage": usage})
            self._chunk(b"data: [DONE]\n\n")
            self._chunk(b"")
        except OSError:
            note(abandoned=body.get("user"))
            self.close_connection = True
        return None

    def _event(self, document: dict[str, Any]) -> None:
        self._chunk(b"data: " + json.dumps(document).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        # Cut in two, so that no event comes in one piece.
        half = len(data) // 2
        for part in (data[:half], data[half:]) if half else (data,):
            self.wfile.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            self.wfile.flush()

    def _refuse(self, status: int, message: str) -> None:
        error = {"message": message, "type": "BadRequestError", "param": None, "code": status}
        self._send(status, json.dumps({"error": error}).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Server(ThreadingHTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)

    def get_request(self) -> tuple[Any, Any]:
        connection, _ = super().get_request()
        return connection, ("unix", 0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--uds", required=True)
    parser.add_argument("--served-model-name", nargs="+", required=True)
    options, rest = parser.parse_known_args()
    note(argv=rest, model=options.model, pid=os.getpid())
    say("INFO fake vllm is starting")
    time.sleep(float(os.environ.get("FAKE_VLLM_LOAD_SECONDS", "0")))
    while (awaited := os.environ.get("FAKE_VLLM_LOADS_UNTIL")) and not Path(awaited).exists():
        time.sleep(0.01)
    if status := os.environ.get("FAKE_VLLM_EXIT"):
        say("ValueError: No available memory for the cache blocks.")
        sys.exit(int(status))
    Handler.names = tuple(options.served_model_name)
    Server(options.uds, Handler).serve_forever()  # type: ignore[arg-type]


main()
