"""The engine of a worker by its name. Each is imported when it is asked for: torch takes seconds."""

from serving.engines.base import Engine
from serving.engines.registry import ENGINES
from serving.settings import VersionSettings, read_settings
from serving.worker_command import WorkerCommand


def make_engine(command: WorkerCommand, version_file: VersionSettings) -> Engine:
    """The engine that `command` names, not started yet.

    Its settings are those of the version's own file, overridden by the command's. Raises SettingsError.
    """
    settings = dict(version_file.engines.get(command.engine, {})) | dict(command.settings)
    where = f"settings of the {command.engine} engine"
    spec = ENGINES[command.engine]
    if spec.program is not None:
        from serving.engines.server import ServerEngine
        from serving.engines.server_options import ServerSettings

        return ServerEngine(command, spec, ServerSettings.read(settings, spec, where=where))

    from serving.engines.answers import TextAnswers

    settings = spec.unaliased(settings)
    if command.engine == "transformers":
        from serving.engines.transformers import TransformersEngine, TransformersSettings

        return TextAnswers(
            TransformersEngine(command, read_settings(TransformersSettings, settings, where=where))
        )

    from serving.engines.echo import EchoEngine, EchoSettings

    return TextAnswers(EchoEngine(read_settings(EchoSettings, settings, where=where)))
