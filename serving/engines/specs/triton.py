"""Triton Inference Server (23.04 and later), by its maker's image.

Metrics: its docs/user_guide/metrics.md, on a port of their own. It tells requests that wait for a model, not
those that are worked on: how busy it is follows from the time that its models have computed. It knows
requests, not tokens. A server may have several models: all are its work.
"""

from serving.engines.spec import EngineSpec, MetricNames, PodServer

_SUCCESS, _FAILURE = "nv_inference_request_success", "nv_inference_request_failure"
_COMPUTE = "nv_inference_compute_{}_duration_us"

SPEC = EngineSpec(
    name="triton",
    formats=("onnx",),
    pod_server=PodServer(health_path="/v2/health/ready", metrics_port=8002),
    metrics=MetricNames(
        present=(_SUCCESS,),
        waiting=("nv_inference_pending_request_count",),
        worked_seconds=(" + ".join(_COMPUTE.format(part) for part in ("input", "infer", "output")),),
        worked_unit=1e-6,
        requests=(f"{_SUCCESS} + {_FAILURE}",),
        errors=(f'{_FAILURE} - {_FAILURE}{{reason="REJECTED"}} - {_FAILURE}{{reason="CANCELED"}}',),
        refused=(f'{_FAILURE}{{reason="REJECTED"}}',),
    ),
)
