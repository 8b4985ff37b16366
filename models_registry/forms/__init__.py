"""What people fill in about models and versions. Fields only: services decide."""

from models_registry.forms.aliases import AliasForm
from models_registry.forms.evaluations import EvaluationForm
from models_registry.forms.exemptions import ExemptionForm
from models_registry.forms.exports import ExportForm, NewTokenForm
from models_registry.forms.hubs import HubSourceForm, NewHubSourceForm, every_in_words
from models_registry.forms.models import ModelChangeForm, NewModelForm
from models_registry.forms.signatures import DemandForm, TrustedKeyForm
from models_registry.forms.storage import CollectionForm, QuotaForm, RetentionApplyForm, RetentionForm
from models_registry.forms.versions import ImportForm, TagForm

__all__ = [
    "AliasForm",
    "CollectionForm",
    "DemandForm",
    "EvaluationForm",
    "ExemptionForm",
    "ExportForm",
    "HubSourceForm",
    "ImportForm",
    "ModelChangeForm",
    "NewHubSourceForm",
    "NewModelForm",
    "NewTokenForm",
    "QuotaForm",
    "RetentionApplyForm",
    "RetentionForm",
    "TagForm",
    "TrustedKeyForm",
    "every_in_words",
]
