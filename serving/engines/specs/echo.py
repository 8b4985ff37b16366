"""The engine without a model, which says the prompt again: `serving.engines.echo`."""

from serving.engines.spec import CHAT, COMPLETIONS, EngineSetting, EngineSpec, count_setting, gettext_noop

SPEC = EngineSpec(
    name="echo",
    in_worker=True,
    apis=frozenset({CHAT, COMPLETIONS}),
    settings=(
        EngineSetting(
            "token_seconds",
            gettext_noop("Time per token (s)"),
            "number",
            gettext_noop("The echo engine repeats the prompt, at this pace."),
            0,
            60,
        ),
        count_setting("tokens", gettext_noop("Least answer length"), least=0, most=1_000_000),
    ),
)
