"""Each shell's completion, asked of the shell itself."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.cli import COMMANDS

from .test_cli import run, run_json

BASH = """
source {script}
COMP_WORDS=({words}) COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
registered=$(complete -p opencode-memory)
[[ $registered =~ -F\\ ([^ ]+) ]]
"${{BASH_REMATCH[1]}}" opencode-memory "${{COMP_WORDS[COMP_CWORD]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

FISH = """
source {script}
complete --do-complete {line} | string replace --regex '\\t.*' ''
"""

# zsh completes in a terminal only: an inner zsh has one, puts every match into the line, and runs
# it: the matches are the arguments of a command that prints them.
ZSH = """
zmodload zsh/zpty
TERM=dumb zpty inner zsh -f -i
zpty -w inner source {setup}
zpty -r inner said '*READY*'
zpty -n -w inner {line}$'\\x14\\n'
zpty -r inner said '*:END*'
print -r -- ${{${{said#*MATCHES:}}%%:END*}}
"""

ZSH_SETUP = """
fpath=({folder} $fpath)
autoload -Uz compinit; compinit -u -D
opencode-memory() {{ print -r -- "MATCHES:$*:END" }}
insert-all() {{ _main_complete; compstate[insert]=all }}
zle -C insert-all complete-word insert-all
bindkey '^T' insert-all
print READY
"""


def ask_bash(script: Path, line: str) -> set[str]:
    words = " ".join(shlex.quote(word) for word in line.split(" "))
    text = BASH.format(script=shlex.quote(str(script)), words=words)
    command = ["bash", "--norc", "--noprofile", "-c", text]
    return set(subprocess.check_output(command, text=True, timeout=20).splitlines())


def ask_fish(script: Path, line: str) -> set[str]:
    text = FISH.format(script=shlex.quote(str(script)), line=shlex.quote(line))
    command = ["fish", "--no-config", "-c", text]
    return set(subprocess.check_output(command, text=True, timeout=20).splitlines())


def ask_zsh(script: Path, line: str) -> set[str]:
    setup = script.with_name("setup")
    setup.write_text(ZSH_SETUP.format(folder=shlex.quote(str(script.parent))))
    text = ZSH.format(setup=shlex.quote(str(setup)), line=shlex.quote(line))
    said = subprocess.check_output(["zsh", "-f", "-c", text], text=True, timeout=20)
    given = set(line.split()[1:])
    return set(said.split()) - given


SHELLS = {"bash": ask_bash, "zsh": ask_zsh, "fish": ask_fish}


@pytest.fixture(params=SHELLS)
def ask(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], set[str]]:
    """What the shell offers at the end of a line."""
    if not shutil.which(request.param):
        pytest.skip(f"{request.param} is not installed")
    script = tmp_path / "_opencode-memory"  # the name that zsh goes by
    done = run("completion", request.param)
    assert (done.returncode, done.stderr) == (0, "")
    script.write_text(done.stdout)
    return lambda line: SHELLS[request.param](script, line)


def test_a_shell_completes_commands(ask: Callable[[str], set[str]]) -> None:
    assert ask("opencode-memory cl") == {"clear"}
    assert ask("opencode-memory ") == set(COMMANDS)


def test_a_shell_completes_a_commands_own_options(ask: Callable[[str], set[str]]) -> None:
    offered = ask("opencode-memory clear --")
    assert {"--all", "--json"} <= offered
    assert "--transport" not in offered


def test_a_shell_completes_what_an_argument_may_be(ask: Callable[[str], set[str]]) -> None:
    assert ask("opencode-memory service ") >= {"install", "uninstall", "status"}
    assert ask("opencode-memory serve --transport ") == {"unix", "tcp"}


def test_a_shell_completes_folders_where_one_is_meant(
    ask: Callable[[str], set[str]], tmp_path: Path
) -> None:
    (tmp_path / "folder-of-mine").mkdir()
    (tmp_path / "folder-not.txt").touch()
    offered = ask(f"opencode-memory blocks --directory {tmp_path}/folder-")
    assert {name.rstrip("/") for name in offered} == {f"{tmp_path}/folder-of-mine"}


def test_the_script_is_in_the_envelope_as_well() -> None:
    data = run_json("completion", "fish")["data"]
    assert data == {"shell": "fish", "script": run("completion", "fish").stdout}


def test_a_shell_that_is_not_known_is_wrong_usage() -> None:
    assert run("completion", "cmd.exe").returncode == 2
