"""A process of the user's own: a function, a command that takes this process over, or a language model."""

import os
import socket

from serving.runtime.app import KeptProcess
from serving.runtime.children import ChildOrder, tell
from serving.runtime.loading import load_app


def run(order: ChildOrder, channel: socket.socket) -> None:
    app, _ = load_app(order.path)
    name = order.name.partition("#")[0]
    target = next(one.target for one in app.own_processes if one.name == name)
    if isinstance(target, KeptProcess):
        target.keep(lambda: tell(channel, {"ready": {}}))
        return
    tell(channel, {"ready": {}})
    if callable(target):
        target()
    else:
        os.execvp(target[0], list(target))  # noqa: S606 - the user's own words
