from pydantic.fields import FieldInfo

from common.management.written import WrittenFromCode
from controlplane.environment import APP_SETTINGS, Environment, variable
from controlplane.environment.kept import RetentionSettings
from controlplane.environment.model_files import ModelFileSettings
from controlplane.environment.sample_cluster import SampleClusterSettings
from controlplane.environment.sign_on import SignOnSettings

HEAD = """\
# Settings

Written by `manage.py settings_reference` from `controlplane/environment/` and `settings.py` of each app. Set
them in the environment, or as `NAME=value` lines in a file `.env` beside `manage.py`; the environment wins. A
missing or malformed setting stops the process with one line that names it (exit status 2).
"""
SECTIONS = {
    Environment: "The process and who reaches it",
    SignOnSettings: "Signing in",
    ModelFileSettings: "Files of models",
    RetentionSettings: "How long things are kept",
    **{part: part.__doc__ or "" for part in APP_SETTINGS},
    SampleClusterSettings: "The sample's Kubernetes cluster",
}


def reference() -> str:
    """The whole of docs/SETTINGS.md."""
    unsaid = dict(Environment.model_fields)
    text = HEAD
    for part, title in SECTIONS.items():
        text += f"\n## {title}\n\n| variable | default | meaning |\n|---|---|---|\n"
        names = [name for name in part.__annotations__ if name in unsaid]
        text += "".join(_row(name, unsaid.pop(name)) for name in names)
    if unsaid:
        raise LookupError(f"in no section: {', '.join(unsaid)}")
    return text


def _row(name: str, field: FieldInfo) -> str:
    default = field.default
    if isinstance(default, tuple):
        default = ",".join(str(part) for part in default)
    if isinstance(default, bool):
        default = str(default).lower()
    shown = f"`{default}`" if default != "" else ""
    return f"| `{variable(name)}` | {shown} | {field.description} |\n"


class Command(WrittenFromCode):
    help = "Write docs/SETTINGS.md."
    file = "docs/SETTINGS.md"

    def text(self) -> str:
        return reference()
