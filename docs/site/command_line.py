"""The reference of the linter's command line, from its argparse form."""

from __future__ import annotations

import argparse

from pygraph_lint.commands.arguments import parser

_INTRODUCTION = """\
---
title: Command line of pygraph-lint
description: Every command and option of pygraph-lint
---

# Command line of `pygraph-lint`

{description} {epilog}

Options that are also settings are explained in [Settings](settings.md); the formats in
[Output formats](output-formats.md).

## Exit codes

| code | meaning |
| --- | --- |
| 0 | nothing found, or nothing to check |
| 1 | findings, or files that cannot be read or parsed |
| 2 | wrong usage or settings, a path that does not exist, a folder that cannot be read, or a file that could not be written |
| 130 | interrupted (Ctrl-C); each file is unchanged or completely fixed |
"""  # noqa: E501


def page() -> str:
    """The whole page."""
    built = parser()
    parts = [_INTRODUCTION.format(description=built.description, epilog=built.epilog)]
    commands = next(
        action for action in built._actions if isinstance(action, argparse._SubParsersAction)
    )
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    parts += [_command(name, one, helps[name]) for name, one in commands.choices.items()]
    return "\n".join(parts)


def _command(name: str, one: argparse.ArgumentParser, said: str) -> str:
    lines = [f"## pygraph-lint {name}\n", f"{said[:1].upper()}{said[1:]}.\n"]
    if one.description:
        lines.append(f"{one.description}\n")
    for group in one._action_groups:
        actions = [action for action in group._group_actions if action.dest != "help"]
        if not actions:
            continue
        title = {"positional arguments": "arguments"}.get(group.title or "", group.title)
        lines += [f"### {name}: {title}\n", "| option | meaning |", "| --- | --- |"]
        lines += [_row(action) for action in actions]
        lines.append("")
    return "\n".join(lines)


def _row(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings:
        shown = f"`{value or action.dest}`"
    else:
        takes = f" {value or action.dest.upper()}" if action.nargs != 0 else ""
        shown = ", ".join(f"`{flag}{takes}`" for flag in action.option_strings)
    text = (action.help or "").replace("|", "\\|")
    if action.choices:
        one_of = ", ".join(f"`{choice}`" for choice in action.choices)
        text = f"{text + ': ' if text else 'one of '}{one_of}"
    return f"| {shown} | {text} |"
