"""Engines by name. Each is imported only when it is asked for: torch alone takes seconds."""

from serving.engines.base import Engine
from serving.settings import VersionFile, read_settings
from serving.worker_command import WorkerCommand


def make_engine(command: WorkerCommand, version_file: VersionFile) -> Engine:
    """The engine that `command` names, not started yet.

    Its settings are those of the version's own file, overridden by the command's. Raises SettingsError.
    """
    settings = dict(version_file.engines.get(command.engine, {})) | dict(command.settings)
    where = f"settings of the {command.engine} engine"
    if command.engine == "vllm":
        from serving.engines.vllm import VllmEngine, VllmSettings

        return VllmEngine(command, VllmSettings.read(settings, where=where))

    from serving.engines.answers import TextAnswers

    if command.engine == "transformers":
        from serving.engines.transformers import TransformersEngine, TransformersSettings

        return TextAnswers(
            TransformersEngine(command, read_settings(TransformersSettings, settings, where=where))
        )

    from serving.engines.echo import EchoEngine, EchoSettings

    return TextAnswers(EchoEngine(read_settings(EchoSettings, settings, where=where)))
