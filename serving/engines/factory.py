"""The engine of a worker by its name. Each is imported when it is asked for: torch takes seconds."""

from typing import Any

from serving.engines.base import Engine
from serving.engines.registry import ENGINES
from serving.prompt_compression import CompressionSettings, PromptCompressor, split_settings
from serving.settings import VersionSettings, read_settings
from serving.worker_command import WorkerCommand


def make_compressor(command: WorkerCommand, version_file: VersionSettings) -> PromptCompressor | None:
    """The stage before the engine, not loaded yet; None: prompts stay as they are. Raises SettingsError."""
    settings, _engine = _settings(command, version_file)
    return PromptCompressor(settings, command.model_dir) if settings.is_on else None


def _settings(
    command: WorkerCommand, version_file: VersionSettings
) -> tuple[CompressionSettings, dict[str, Any]]:
    given = dict(version_file.engines.get(command.engine, {})) | dict(command.settings)
    return split_settings(given, where=f"settings of the {command.engine} engine")


def make_engine(command: WorkerCommand, version_file: VersionSettings) -> Engine:
    """The engine that `command` names, not started yet.

    Its settings are those of the version's own file, overridden by the command's. Raises SettingsError.
    """
    settings = _settings(command, version_file)[1]
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
