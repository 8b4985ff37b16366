"""The launcher with a real gateway, the workers that are wished, and a small control plane:
`python -m tests.stack.serving_stack`."""

import sys
from dataclasses import replace

from controlplane.embedded.home import Home
from controlplane.embedded.programs import Programs, programs
from controlplane.env import env
from controlplane.environment import Environment
from tests.stack.small_stack import SmallLauncher, small


def serving(env: Environment, home: Home) -> Programs:
    return replace(small(env, home), data=programs(env, home).data)


if __name__ == "__main__":
    is_replacing = "--replace" in sys.argv[1:]
    raise SystemExit(SmallLauncher(env, what=serving, prepare=("-c", ""), replace=is_replacing).run())
