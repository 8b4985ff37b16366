from common.errors import Invalid


class ConfigurationRefused(Invalid):
    """Documents cannot be applied, and nothing was changed; `fields` names them as `documents.3.replicas`."""
