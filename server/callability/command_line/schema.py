"""`callability schema rules`, `tests` and `policy`: write the JSON Schemas of policy files, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from callability.command_line.options import leave
from callability.finding import did_you_mean, shown
from callability.output_file import OutputRefused, output_to
from callability.policy.questions.callability import CALLABILITY
from callability.policy.questions.question import Question
from callability.policy.questions.questions import QUESTIONS
from callability.policy.reading.schema import schema_of_rules, schema_of_tests

QuestionArgument = Annotated[str, typer.Argument(metavar="[QUESTION]", help=f"The question: {', '.join(QUESTIONS)}.")]


def rules(question: QuestionArgument = CALLABILITY.name) -> None:
    """Print the JSON Schema of a rule file, with the facts, statuses and placeholders of this version.

    Exit code 0: printed. 2: there is no such question.
    """
    typer.echo(json.dumps(schema_of_rules(_question(question)), indent=2))


def cases(question: QuestionArgument = CALLABILITY.name) -> None:
    """Print the JSON Schema of the tests beside a rule file.

    Exit code 0: printed. 2: there is no such question.
    """
    typer.echo(json.dumps(schema_of_tests(_question(question)), indent=2))


def every(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory to write to; it is created if needed.")
    ],
) -> None:
    """Write the JSON Schemas of all rule files and their tests to a directory, under the names of the shipped ones.

    Existing files are overwritten. Exit code 0: written. 1: they cannot be written.
    """
    written = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, question in QUESTIONS.items():
            for file, schema in ((name, schema_of_rules(question)), (f"{name}_test", schema_of_tests(question))):
                path = directory / f"{file}.schema.json"
                with output_to(path) as stream:
                    stream.write(f"{json.dumps(schema, indent=2)}\n".encode())
                written.append(path)
    except OutputRefused as error:
        leave(str(error), 1)
    except OSError as error:
        leave(f"`{error.filename}` cannot be written: {(error.strerror or 'error').lower()}", 1)
    for path in written:
        typer.echo(str(path))


def _question(name: str) -> Question:
    if name not in QUESTIONS:
        leave(f"unknown question {shown(name)} ({did_you_mean(name, QUESTIONS)})", 2)
    return QUESTIONS[name]
