"""`python -m serving.node_agent`: one process per machine that reports it, with all its workers and devices.

Workers POST their heartbeats to its Unix socket; once a second it POSTs one `NodeReport` for all of them. A
worker that it has not heard of for 5 s is left out: whoever is stopped, or hangs, falls silent with it. Of
that it keeps nothing: after its own end the next one knows everything a second later, by another `session`.

Where it may read `/dev/kmsg` it also tells what the kernel says of GPUs, and once a minute what NVML, DCGM
and InfiniBand say. What nobody has stored yet lies in `--spool`. It never acts on what it sees.
"""

import argparse
import asyncio
import contextlib
import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serving import logs
from serving.devices import read_devices, read_host
from serving.drills.agent import PlayedMachine
from serving.fields import ProtocolError
from serving.gpu_polling import GpuPolling, own_probes
from serving.hearing import LatestHeartbeats, answer, hear_until_stopped, heartbeat_of
from serving.heartbeat_sender import HeartbeatSender
from serving.kernel_messages import KernelMessages
from serving.protocol import HEARTBEAT_SECONDS, MAX_WORKERS_PER_REPORT, Device, NodeReport
from serving.readings_sender import ReadingsSender

READ_DEVICES_EVERY_SECONDS = 10.0
PLAYED_EVERY_SECONDS = 5.0
"""Of a machine that is played alone: it has no workers that an agent must be heard for."""


class NodeAgent:
    """The last heartbeats of a machine's workers, and the report that follows from them."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._session = secrets.token_hex(8)
        self._sequence = 0
        self.heard = LatestHeartbeats(most=MAX_WORKERS_PER_REPORT, place="this machine")
        self.devices: tuple[Device, ...] = ()

    def compose(self) -> bytes:
        """The next report."""
        self._sequence += 1
        return NodeReport(
            node=self._node,
            session=self._session,
            sequence=self._sequence,
            workers=[heartbeat.to_dict() for heartbeat in self.heard],
            devices=[device.to_dict() for device in self.devices],
        ).encode()


class HeartbeatApp:
    """The ASGI application that workers POST their heartbeats to."""

    def __init__(self, agent: NodeAgent, sender: HeartbeatSender) -> None:
        self._agent = agent
        self._sender = sender

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        try:
            if self._agent.heard.keep(await heartbeat_of(receive)):
                self._sender.hurry()
        except ProtocolError as error:
            await answer(send, 400, str(error).encode())
        else:
            await answer(send, 204, b"")


async def serve(
    listener: socket.socket,
    *,
    node: str,
    urls: Sequence[str],
    token_file: Path,
    spool: Path | None = None,
    dcgm_url: str = "",
    drill: Path | None = None,
    is_played: bool = False,
) -> None:
    """Until SIGTERM or SIGINT. `is_played`: there is no machine but the one that drills play."""
    agent = NodeAgent(node)
    every = PLAYED_EVERY_SECONDS if is_played else HEARTBEAT_SECONDS
    sender = HeartbeatSender(*urls, token_file=token_file, compose=agent.compose, every=every)

    async def look_at_devices() -> None:
        while True:
            agent.devices = (*read_host(), *await read_devices())
            await asyncio.sleep(READ_DEVICES_EVERY_SECONDS)

    readings = ReadingsSender(*urls, token_file=token_file, spool=spool)
    seeing = [] if drill is None else [PlayedMachine(readings.take, drill).run()]
    if not is_played:
        seeing += [
            look_at_devices(),
            KernelMessages(readings.take).run(),
            GpuPolling(readings.take, *own_probes(dcgm_url)).run(),
        ]
    await hear_until_stopped(HeartbeatApp(agent, sender), listener, sender.run(), readings.run(), *seeing)


def listen(path: Path) -> socket.socket:
    """A socket for this user alone, in the place of one that was left behind. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.setblocking(False)
    return listener


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m serving.node_agent",
        description="Reports this machine with all its workers and devices once a second.",
        allow_abbrev=False,
    )
    parser.add_argument("--node", required=True, help="uid of the machine, as its cluster gives it")
    parser.add_argument("--socket", required=True, type=Path, help="Unix socket to hear the workers on")
    parser.add_argument(
        "--url",
        required=True,
        action="append",
        help="where reports are POSTed; given again: where else",
    )
    parser.add_argument("--token-file", required=True, type=Path, help="file with the token of the machine")
    parser.add_argument("--spool", type=Path, help="file for readings of GPUs that are not stored yet")
    parser.add_argument(
        "--dcgm-url",
        type=_url,
        help="metrics of this machine's dcgm-exporter, such as http://127.0.0.1:9400/metrics",
    )
    parser.add_argument(
        "--drill", type=Path, help="directory in which drills play faults; of machines of test clusters"
    )
    parser.add_argument(
        "--played",
        action="store_true",
        help="with --drill: the machine is none but the played one; nothing of this computer is read",
    )
    given = parser.parse_args(arguments)
    if given.played and given.drill is None:
        parser.error("--played goes with --drill")
    logs.set_up("agent", node=given.node)
    try:
        listener = listen(given.socket)
    except OSError as error:
        sys.stderr.write(f"serving.node_agent: --socket {given.socket}: {error.strerror or error}\n")
        return 2
    asyncio.run(
        serve(
            listener,
            node=given.node,
            urls=given.url,
            token_file=given.token_file,
            spool=given.spool,
            dcgm_url=given.dcgm_url or "",
            drill=given.drill,
            is_played=given.played,
        )
    )
    return 0


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError("give an address that begins with http:// or https://")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
