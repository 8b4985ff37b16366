"""What people fill in about services, releases and policies. Fields only: services decide."""

from releases.forms.policy import PolicyForm, ServicePolicyForm
from releases.forms.release import ReleaseForm
from releases.forms.release_header import ReleaseHeaderForm
from releases.forms.service import NewServiceForm, ServiceChangeForm

__all__ = [
    "NewServiceForm",
    "PolicyForm",
    "ReleaseForm",
    "ReleaseHeaderForm",
    "ServiceChangeForm",
    "ServicePolicyForm",
]
