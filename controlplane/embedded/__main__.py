"""`bin/up`, after the installation."""

import argparse

from controlplane.env import env, kubeconfig


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bin/up",
        description="Runs the whole of Slipway on this machine, in the foreground. Ctrl-C stops all of it.",
        epilog="Settings: SLIPWAY_* variables or a .env file; docs/SETTINGS.md lists them.",
    )
    parser.add_argument(
        "--sample",
        nargs="?",
        const="text",
        choices=("text", "vision", "translate", "benchmark", "optimize", "tide"),
        help="play the main job on a real small model, up to the approval: a language model, or a vision "
        "model with a service of its own code, or a graph of tasks that translates pictures; or a benchmark "
        "of two configurations, up to its verdict; or optimised versions of the language model, judged, and "
        "a canary of one; or a tide of requests over workers that work off jobs in between",
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
    parser.add_argument(
        "--kubernetes",
        action="store_true",
        help="with --sample: on a Kubernetes cluster, that of KUBECONFIG if it is set, else one that this "
        "machine plays: its pods are processes",
    )
    theirs = parser.add_argument_group("with KUBECONFIG")
    theirs.add_argument(
        "--namespace", help="where workers run; default: slipway-sample. Nothing else is touched"
    )
    theirs.add_argument("--image", help="a worker's image, by digest")
    theirs.add_argument(
        "--gateway", metavar="NAMESPACE/NAME", help="the Gateway; default: the only one there is"
    )
    theirs.add_argument(
        "--store-url", metavar="URL", help="where pods reach Slipway; default: SLIPWAY_PUBLIC_URL"
    )
    given = parser.parse_args()
    for option in ("bad", "kubernetes"):
        if getattr(given, option) and not given.sample:
            parser.error(f"--{option} goes with --sample")
    if given.kubernetes and given.sample != "text":
        parser.error("--kubernetes goes with --sample text")
    errand = ["sample", f"--of={given.sample}"] if given.sample else []
    errand += [f"--{option}" for option in ("bad", "kubernetes") if getattr(given, option)]
    for option in ("namespace", "image", "gateway", "store_url"):
        if value := getattr(given, option):
            if not (given.kubernetes and kubeconfig()):
                parser.error(f"--{option.replace('_', '-')} goes with --kubernetes and KUBECONFIG")
            errand.append(f"--{option.replace('_', '-')}={value}")

    from controlplane.embedded.launcher import Launcher

    return Launcher(
        env,
        after_ready=errand,
        replace=given.replace,
        with_sample_cluster=given.kubernetes and kubeconfig() is None,
    ).run()


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
