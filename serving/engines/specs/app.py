"""A service of the team's own, with routes of its own: `serving.runtime.service`."""

from serving.engines.spec import EngineSetting, EngineSpec, count_setting, gettext_noop

SPEC = EngineSpec(
    name="app",
    in_worker=True,
    settings=(
        EngineSetting(
            "file",
            gettext_noop("App file"),
            "text",
            gettext_noop("Python file of the version with the serve.App; app.py by default."),
            placeholder="app.py",  # untranslated
        ),
        count_setting(
            "processes",
            gettext_noop("CPU processes"),
            gettext_noop("Requests that are worked on at the same time; 0: as the app says."),
            least=0,
            most=512,
        ),
    ),
)
