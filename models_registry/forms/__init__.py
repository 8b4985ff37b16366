"""What people fill in about models and versions. Fields only: services decide."""

from models_registry.forms.aliases import AliasForm
from models_registry.forms.evaluations import EvaluationForm
from models_registry.forms.exemptions import ExemptionForm
from models_registry.forms.models import ModelChangeForm, NewModelForm
from models_registry.forms.retention import RetentionApplyForm, RetentionForm
from models_registry.forms.versions import ImportForm, TagForm

__all__ = [
    "AliasForm",
    "EvaluationForm",
    "ExemptionForm",
    "ImportForm",
    "ModelChangeForm",
    "NewModelForm",
    "RetentionApplyForm",
    "RetentionForm",
    "TagForm",
]
