from tests.kube import builtin_types


def test_the_fakes_types_are_those_of_the_package() -> None:
    assert builtin_types.KEPT.read_text() == builtin_types.text(), "python -m tests.kube.builtin_types"
