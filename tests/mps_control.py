#!/usr/bin/env python3
"""Stands in for `nvidia-cuda-mps-control` where there is no GPU: the commands that Slipway gives, as NVIDIA
documents them. Its clients are the processes that carry its directory in their environment.
"""

import json
import os
import signal
import sys
from pathlib import Path

WRAPPER = '#!/bin/bash\nexec -a nvidia-cuda-mps-control "{python}" "{script}" "$@"\n'
DIRECTORY = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
STATE = DIRECTORY / "state.json"
SERVER = 4_711


def install(place: Path) -> None:
    """Put it into a directory of programs."""
    program = place / "nvidia-cuda-mps-control"
    program.write_text(WRAPPER.format(python=sys.executable, script=__file__))
    program.chmod(0o755)


def clients() -> list[int]:
    mark = f"CUDA_MPS_PIPE_DIRECTORY={DIRECTORY}".encode()
    found = []
    for place in Path("/proc").iterdir():
        try:
            if (
                place.name.isdecimal()
                and mark in (place / "environ").read_bytes().split(b"\0")
                and b"nvidia-cuda-mps-control" not in (place / "cmdline").read_bytes()
            ):
                found.append(int(place.name))
        except OSError:
            continue
    return found


def answer(words: list[str], state: dict[str, str]) -> str:
    match words:
        case ["get_default_active_thread_percentage"]:
            return state["threads"]
        case ["set_default_active_thread_percentage", threads]:
            state["threads"] = f"{float(threads)}"
        case ["set_default_device_pinned_mem_limit", card, limit]:
            state[card] = limit
        case ["get_default_device_pinned_mem_limit", card]:
            return state.get(card, "")
        case ["get_server_status", _server]:
            return "ACTIVE"
        case ["get_server_list"]:
            return str(SERVER) if clients() else ""
        case ["get_client_list", _server]:
            return "\n".join(map(str, clients()))
        case ["terminate_client", _server, client]:
            os.kill(int(client), signal.SIGKILL)
        case ["quit"]:
            state.clear()
        case _:
            sys.exit(f"Unknown command {words}")
    return ""


def main() -> None:
    if sys.argv[1:] == ["-d"]:
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        STATE.write_text(json.dumps({"threads": "100.0"}))
        return
    if not STATE.exists():
        sys.exit("Cannot find MPS control daemon process")
    state = json.loads(STATE.read_text())
    print(answer(sys.stdin.read().split(), state))
    if state:
        STATE.write_text(json.dumps(state))
    else:
        STATE.unlink()


if __name__ == "__main__":
    main()
