"""Before any traffic: is the version sound, do its workers come up, do they answer?"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from clusters import selectors as fleet
from clusters import services as clusters
from clusters.errors import NoImageFits
from clusters.selectors import DeploymentStatus
from clusters.states import DeploymentState
from common.reconcile import Effect, Operation, Outcome
from models_registry.errors import CodeNotAllowed, SignatureNotTrusted
from models_registry.exemptions import check_code, code_of, exemption_of
from models_registry.models import Version
from models_registry.states import VersionState
from models_registry.vouching import check_signature
from releases import plans, smoke, stored
from releases.models import Release
from releases.reconcilers.base import ACTOR, PlanStep, halt
from releases.states import Halt

LONGEST_ANSWER_SECONDS = 10.0
"""One step of the kernel takes seconds: a worker that needs longer for 16 tokens is not fit for traffic."""


class ScanVersion(PlanStep[plans.Scan]):
    """The registry has looked at every file while importing; a release trusts only what is still so."""

    name = "scan"

    def settle(self, row: Release, seen: Any, now: datetime) -> Outcome:
        version = row.version
        if version.state != VersionState.READY:
            return halt(row, stored.NOT_READY % {"version": version, "state": version.state}, kind=Halt.FAIL)
        try:
            check_code(version, at=now)
            signature = check_signature(version)
        except (CodeNotAllowed, SignatureNotTrusted) as error:
            return halt(row, str(error), kind=Halt.FAIL)
        note = f"{version.file_count} files, {_code_in_words(version, now)}. {signature}".rstrip()
        return self.go_on(row, note=note, detail={"digest": version.digest})


def _code_in_words(version: Version, now: datetime) -> str:
    code = code_of(version)
    if not code:
        return "all of formats that run no code"
    exemption = exemption_of(version, at=now)
    by = f" by {exemption.given_by} until {exemption.until:%-d %B %Y}" if exemption else ""
    return f"{len(code)} of them with code, exempted{by}"


class DeployCandidate(PlanStep[plans.Deploy]):
    """Bring the candidate's workers up; a later deploy step of the plan changes how many there are."""

    name = "deploy"
    effect = Effect.ABSOLUTE

    def __init__(self, spec: plans.Deploy) -> None:
        super().__init__(spec)
        self._refusal = ""

    def intent(self, row: Release) -> Mapping[str, Any]:
        return {"deployment": row.candidate_deployment, "replicas": self._replicas(row)}

    def act(self, row: Release, operation: Operation) -> None:
        if row.is_warm:
            return  # as many as served before; to have more of them would take as long as a cold start
        service = row.service
        try:
            clusters.ensure_deployment(
                name=row.candidate_deployment,
                cluster=service.cluster,
                team=service.team,
                service=service.name,
                version=row.version,
                replicas=self._replicas(row),
                slots=service.slots,
                engine=service.engine,
                device=service.device,
                resources=service.resources,
                settings=service.settings,
                image=row.image or service.image,
                op_key=f"release:{row.pk}",
                actor=ACTOR,
            )
        except (CodeNotAllowed, SignatureNotTrusted, NoImageFits) as error:
            self._refusal = str(error)
            return
        clusters.scale_deployment(
            actor=ACTOR,
            name=row.candidate_deployment,
            replicas=self._replicas(row),
            fence=operation.fence,
            reason="The plan says so.",
        )

    def observe(self, row: Release, operation: Operation) -> DeploymentStatus | str:
        return self._refusal or fleet.deployment_status(row.candidate_deployment)

    def settle(self, row: Release, seen: DeploymentStatus | str, now: datetime) -> Outcome:
        if isinstance(seen, str):
            return halt(row, seen, kind=Halt.FAIL)
        progress: dict[str, Any] = {"ready": seen.ready, "wanted": seen.wanted}
        if seen.image_reason:
            progress |= {"image": seen.image_reference, "image_reason": seen.image_reason}
        if seen.state == DeploymentState.FAILING:
            return halt(row, stored.DO_NOT_START % {"fault": seen.reason}, kind=Halt.FAIL)
        if seen.ready >= seen.wanted:
            took = self.elapsed(row, now).total_seconds()
            return self.go_on(
                row,
                note=f"{seen.ready} {'worker' if seen.ready == 1 else 'workers'} ready after {took:.0f} s.",
                detail=progress,
            )
        if self.elapsed(row, now) > timedelta(seconds=self.spec.ready_within_seconds):
            sentence = stored.FEW_READY_SINCE if seen.reason else stored.FEW_READY
            figures = {"ready": seen.ready, "wanted": seen.wanted, "seconds": self.spec.ready_within_seconds}
            return halt(row, sentence % {**figures, "fault": seen.reason}, kind=Halt.FAIL)
        return self.look_again(row, progress=progress, after=timedelta(seconds=0.5))

    def _replicas(self, row: Release) -> int:
        if self.spec.replicas is not None:
            return self.spec.replicas
        return math.ceil(row.service.replicas * (self.spec.share_percent or 100) / 100)


@dataclass(frozen=True, slots=True)
class Asked:
    status: DeploymentStatus
    probe: smoke.Probe | None


class SmokeTest(PlanStep[plans.SmokeTest]):
    """Real requests, one per look, to each worker in turn; the first bad answer ends the release."""

    name = "smoke_test"

    def observe(self, row: Release, operation: Operation) -> Asked:
        status = fleet.deployment_status(row.candidate_deployment)
        endpoints = fleet.endpoints(row.candidate_deployment).addresses
        if not endpoints:
            return Asked(status, None)
        probes = row.progress.get("probes", [])
        number = len(probes)
        left_seconds = self.spec.timeout_seconds - sum(probe["milliseconds"] for probe in probes) / 1000
        address, port = endpoints[number % len(endpoints)]
        probe = smoke.prober.ask(
            worker=f"{address}:{port}",
            base_url=f"http://{address}:{port}",
            prompt=smoke.PROMPTS[number % len(smoke.PROMPTS)],
            version_label=str(row.version),
            timeout_seconds=max(min(left_seconds, LONGEST_ANSWER_SECONDS), 0.1),
        )
        return Asked(status, probe)

    def settle(self, row: Release, seen: Asked, now: datetime) -> Outcome:
        if seen.status.state == DeploymentState.FAILING:
            return halt(row, stored.DIED % {"fault": seen.status.reason}, kind=Halt.FAIL)
        if seen.probe is None:
            if self.elapsed(row, now) > timedelta(seconds=self.spec.timeout_seconds):
                return halt(row, stored.NO_WORKER, kind=Halt.FAIL)
            return self.look_again(row)
        probes = [*row.progress.get("probes", []), seen.probe.as_json()]
        limit = self.spec.max_latency_ms
        fault = seen.probe.fault
        if not fault and limit is not None and seen.probe.milliseconds > limit:
            fault = f"answered in {seen.probe.milliseconds:.0f} ms, more than the {limit} ms allowed"
        if fault:
            figures = {"number": len(probes), "requests": self.spec.requests, "fault": fault}
            reason = stored.SMOKE_TEST_FAILED % figures
            return halt(row, reason, kind=Halt.FAIL, save={"progress": {"probes": probes}})
        if len(probes) < self.spec.requests:
            return self.look_again(row, progress={"probes": probes}, after=timedelta(0))
        slowest = max(probe["milliseconds"] for probe in probes)
        note = f"{len(probes)} real requests answered, the slowest in {slowest:.0f} ms."
        return self.go_on(row, note=note, detail={"probes": probes})
