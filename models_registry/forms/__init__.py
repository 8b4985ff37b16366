"""What people fill in about models and versions. Fields only: services decide."""

from models_registry.forms.aliases import AliasForm, AliasHistoryFilter, VersionChoice
from models_registry.forms.exemptions import ExemptionForm
from models_registry.forms.exports import ExportForm, NewTokenForm
from models_registry.forms.hubs import HubSourceForm, NewHubSourceForm, every_in_words
from models_registry.forms.models import (
    DescriptionField,
    ModelChangeForm,
    ModelFilter,
    NewModelForm,
    TaskField,
)
from models_registry.forms.signatures import DemandForm, TrustedKeyForm
from models_registry.forms.storage import CollectionForm, QuotaForm, RetentionApplyForm, RetentionForm
from models_registry.forms.versions import ImportForm, PatternsField, TagForm, VersionFilter

__all__ = [
    "AliasForm",
    "AliasHistoryFilter",
    "CollectionForm",
    "DemandForm",
    "DescriptionField",
    "ExemptionForm",
    "ExportForm",
    "HubSourceForm",
    "ImportForm",
    "ModelChangeForm",
    "ModelFilter",
    "NewHubSourceForm",
    "NewModelForm",
    "NewTokenForm",
    "PatternsField",
    "QuotaForm",
    "RetentionApplyForm",
    "RetentionForm",
    "TagForm",
    "TaskField",
    "TrustedKeyForm",
    "VersionChoice",
    "VersionFilter",
    "every_in_words",
]
