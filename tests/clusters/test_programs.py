"""A program's file says to supervisord exactly what the program is, whatever its words contain."""

import configparser
import shlex
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from supervisor.options import ServerOptions

from clusters.backends.supervisor_rpc import SupervisedProgram
from controlplane.embedded.home import Home
from controlplane.embedded.programs import supervisord_conf

words = st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]) | st.just(" "), max_size=30)


def program(*command: str, **options: object) -> SupervisedProgram:
    fields = {"directory": Path("/tmp"), "log": Path("/tmp/part.log"), "priority": 7} | options
    return SupervisedProgram(name="part", command=command, **fields)


@given(st.lists(words, min_size=1, max_size=6))
@example([" "])
@example(["a ;b", " #c"])
def test_supervisord_starts_the_very_command(
    tmp_path_factory: pytest.TempPathFactory, arguments: list[str]
) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    home.make()
    home.control.conf.write_text(supervisord_conf([program("/bin/echo", *arguments)], home.control))

    options = ServerOptions()
    options.realize(["-c", str(home.control.conf)])

    (group,) = options.process_group_configs
    (process,) = group.process_configs
    assert shlex.split(process.command) == ["/bin/echo", *arguments]


def test_what_a_line_cannot_hold_is_refused() -> None:
    for faulty in ("two\nlines", "nul\0", "bell\a"):
        with pytest.raises(ValueError, match="unprintable"):
            program("/bin/echo", faulty)
    with pytest.raises(ValueError, match="needs quoting"):
        program("/bin/echo", environment={"A": 'x"y'})
    with pytest.raises(ValueError, match="cannot name a program"):
        SupervisedProgram(
            name="../x", command=("/bin/echo",), directory=Path("/"), log=Path("/x"), priority=1
        )


def test_the_file_is_one_section_that_any_ini_parser_reads() -> None:
    parser = configparser.RawConfigParser()

    parser.read_string(program("/bin/echo", "50 %", environment={"A": "1,2"}).render())

    assert parser.sections() == ["program:part"]
    assert parser["program:part"]["environment"] == 'A="1,2"'
