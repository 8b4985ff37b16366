from common.live.touch import touch


def show_gpu_health(_event: object) -> None:
    """Findings come from machines and are in no audit record: pages that list them hear of them here."""
    touch("gpu-health")
    touch("changes", "gpu-health")
