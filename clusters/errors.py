from common.errors import Conflict, Invalid, Missing


class ClusterMissing(Missing):
    """There is no such cluster."""


class DeploymentMissing(Missing):
    """There is no such deployment."""


class FleetNameTaken(Conflict):
    """Another operation or another cluster has this name."""


class DeploymentGone(Conflict):
    """A deployment of this name has been removed; names are not used again."""


class StaleScale(Conflict):
    """A later writer has already said how many workers there are to be."""


class ScaleNotForeign(Conflict):
    """Nobody has set the number of workers past Slipway."""


class InvalidDeployment(Invalid):
    """No cluster could run this."""


class NoImageFits(Conflict):
    """No image of the catalogue runs this version there; the message says why for each."""


class InvalidCluster(Invalid):
    """Its kind, settings or secrets cannot be meant."""


class ClusterInUse(Conflict):
    """Something still runs there, or goes there; the message names it."""


class ClusterRemoving(Conflict):
    """The cluster is being removed, or was: nothing new goes there."""


class HostInUse(Conflict):
    """Its workers are on a host that lives."""


class OutdatedReport(Conflict):
    """A newer report of this machine is here already."""


class NodeBusy(Conflict):
    """Another operation of this machine is under way."""


class OperationNotAllowed(Conflict):
    """The machine is not in a state for this operation."""


class ClusterUnreadable(Conflict):
    """The cluster does not answer, or does not let us see what was asked for; the message says why."""


class DrainEnded(Conflict):
    """The drain has ended already."""


class VersionNotDeployed(Missing):
    """No deployment on the cluster needs this version, or this file."""


class WorkerMissing(Missing):
    """There is no such worker, or no log of one."""
