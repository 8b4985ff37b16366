"""Whether this machine is a place for a deployment: what it cannot honour it refuses, in words."""

from collections.abc import Callable

from clusters.backends.base import CannotRun, DeploymentSpec, ObservedNode


def check_placement(spec: DeploymentSpec, machine: Callable[[], ObservedNode]) -> None:
    """Raises CannotRun. Labels and image pull secrets mean nothing to plain processes, and change nothing."""
    placement, resources = spec.placement, spec.resources
    if placement.namespace:
        raise CannotRun(
            f"{spec.name}: this machine has no namespaces. Leave {placement.namespace} out, or choose "
            "another cluster."
        )
    asks = placement.node_selector or placement.spread or resources.cpus or resources.memory_bytes
    if not asks:
        return  # Reading the machine asks its GPUs, too.
    here = machine()
    for key, value in placement.node_selector.items():
        if here.labels.get(key) != value:
            raise CannotRun(
                f"{spec.name} is for machines with the label {key}={value}; {here.name} has "
                f"{f'{key}={here.labels[key]}' if key in here.labels else f'no label {key}'}."
            )
    for spread in placement.spread:
        if spread.is_required and spread.topology_key not in here.labels:
            raise CannotRun(
                f"{spec.name} is spread by {spread.topology_key}, a label that {here.name} lacks."
            )
    if resources.cpus > here.cpu_count:
        raise CannotRun(
            f"{spec.name} needs {resources.cpus:g} CPUs a worker; {here.name} has {here.cpu_count}."
        )
    if resources.memory_bytes > here.memory_bytes:
        raise CannotRun(
            f"{spec.name} needs {resources.memory_bytes:,} bytes of memory a worker; {here.name} has "
            f"{here.memory_bytes:,}."
        )
