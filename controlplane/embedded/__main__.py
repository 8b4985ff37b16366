"""`bin/up`, after the installation."""

import argparse

from controlplane.env import env


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bin/up",
        description="Runs the whole of Slipway on this machine, in the foreground. Ctrl-C stops all of it.",
        epilog="Settings: SLIPWAY_* variables or a .env file; docs/SETTINGS.md lists them.",
    )
    parser.add_argument(
        "--sample", action="store_true", help="play the main job on a real small model, up to the approval"
    )
    parser.add_argument(
        "--bad", action="store_true", help="with --sample: release a bad version, which the judge rolls back"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="take the place of the one that runs on this home, with the code that lies here now; "
        "the gateway and the workers go on",
    )
    arguments = parser.parse_args()
    if arguments.bad and not arguments.sample:
        parser.error("--bad goes with --sample")
    errand = ("sample", *(["--bad"] if arguments.bad else [])) if arguments.sample else ()

    from controlplane.embedded.launcher import Launcher

    return Launcher(env, after_ready=errand, replace=arguments.replace).run()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
