# SPDX-License-Identifier: Apache-2.0
"""Generates parts of the page about the command line from the parser.

The text between `<!-- generated: … -->` and `<!-- end -->` is generated: the list of all commands,
and for each command its usage and its options. The rest of the page does not change.
"""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tidings.cli.command_line import make_parser

PAGE: Final = Path("docs/reference/command-line.md")
ALL: Final = "all commands"
_BLOCK: Final = re.compile(r"<!-- generated: (.+?) -->\n.*?<!-- end -->", re.DOTALL)


def filled_in(page: str) -> str:
    """Return the page with each generated part written anew.

    Raises:
        ValueError: A command has no part on the page, or a part has no command.
    """
    commands = dict(commands_of(make_parser()))
    wanted = [ALL, *commands]
    places = _BLOCK.findall(page)
    if sorted(places) != sorted(wanted):
        lacking, unknown = set(wanted) - set(places), set(places) - set(wanted)
        raise ValueError(f"parts missing for {sorted(lacking)}, unknown parts {sorted(unknown)}")

    def fresh(place: re.Match[str]) -> str:
        name = place[1]
        content = _list(commands) if name == ALL else _block(name, commands[name])
        return f"<!-- generated: {name} -->\n{content}\n<!-- end -->"

    return _BLOCK.sub(fresh, page)


def commands_of(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command with its parser; a command with subcommands yields one for each of
    them."""
    below = _subcommands(parser)
    if below is None:
        yield parser.prog, parser
        return
    for one in below.choices.values():
        yield from commands_of(one)


def _subcommands(
    parser: argparse.ArgumentParser,
) -> "argparse._SubParsersAction[argparse.ArgumentParser] | None":
    found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return found[0] if found else None


def _help_of(parser: argparse.ArgumentParser, name: str) -> str:
    """Return the help text of a command, which the parser of its parent command has."""
    text = ""
    for word in name.split()[1:]:
        below = _subcommands(parser)
        assert below is not None
        text = next(str(one.help) for one in below._choices_actions if one.dest == word)
        parser = below.choices[word]
    return text


def _list(commands: dict[str, argparse.ArgumentParser]) -> str:
    parser = make_parser()
    lines = ["| Command | Purpose |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{one}` | {_help_of(parser, one)} |" for one in commands)])


def _block(name: str, parser: argparse.ArgumentParser) -> str:
    options = [one for one in parser._actions if not isinstance(one, argparse._HelpAction)]
    either = [group for group in parser._mutually_exclusive_groups if group.required]
    lines = ["```", " ".join([name, *_usage(options, either)]), "```"]
    if options:
        lines += ["", "| Option | Meaning |", "|---|---|"]
        lines += [f"| `{_written(one)}` | {_cell(one.help or '')} |" for one in options]
    return "\n".join(lines)


def _usage(
    options: list[argparse.Action], either: list[argparse._MutuallyExclusiveGroup]
) -> Iterator[str]:
    """Yield the required arguments; the table lists the others."""
    for group in either:
        yield "(" + " | ".join(_written(one) for one in group._group_actions) + ")"
    alternatives = [one for group in either for one in group._group_actions]
    required = [one for one in options if one.required and one not in alternatives]
    yield from (_written(one) for one in required)
    if len(required) + len(alternatives) < len(options):
        yield "[options]"


def _written(option: argparse.Action) -> str:
    """Return an option as the user types it, with the name of its value."""
    if not option.option_strings:
        return str(option.metavar or option.dest)
    flag = option.option_strings[-1]
    if option.nargs == 0:
        return flag
    choices = "{" + ",".join(map(str, option.choices)) + "}" if option.choices else None
    value = str(option.metavar or choices or option.dest.upper())
    return f"{flag} {value}" + (" ..." if option.nargs == "+" else "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
