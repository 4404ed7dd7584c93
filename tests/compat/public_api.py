"""The public interface as text: names and signatures of the Python API, the command line, and the HTTP service.

`python tests/compat/public_api.py` writes `public_api.txt`, which `test_public_api.py` compares with the code.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SNAPSHOT = Path(__file__).with_name("public_api.txt")
sys.path.append(str(ROOT / "docs" / "hooks"))
import command_page  # noqa: E402 (the command reference of the site)

DUNDERS = ("__init__", "__call__", "__getitem__", "__iter__", "__len__")


def public_api() -> str:
    """Return the whole public interface, one name per line."""
    parts = {"Python": python_lines(), "Command line": command_lines(), "HTTP service": http_lines()}
    return "\n\n".join(f"# {title}\n" + "\n".join(lines) for title, lines in parts.items()) + "\n"


def python_lines() -> Iterator[str]:
    """Yield what `glassformer` exports and what docs/api.md documents."""
    import glassformer

    exported = {f"glassformer.{name}": getattr(glassformer, name) for name in sorted(glassformer.__all__)}
    documented = re.findall(r"^::: (\S+)$", (ROOT / "docs/api.md").read_text(encoding="utf-8"), re.MULTILINE)
    for path in documented:
        found = resolve(path)
        if isinstance(found, ModuleType):
            exported |= {f"{path}.{name}": value for name, value in vars(found).items() if is_own(found, name, value)}
        elif all(found is not other for other in exported.values()):
            exported[path] = found
    for path, value in exported.items():
        if inspect.isclass(value):
            yield from class_lines(path, value, {*exported.values()})
        else:
            yield signature(path, definition(value))


def resolve(path: str) -> Any:
    try:
        return import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(import_module(module), name)


def is_own(module: ModuleType, name: str, value: Any) -> bool:
    is_code = inspect.isclass(value) or inspect.isfunction(value)
    return is_code and not name.startswith("_") and value.__module__ == module.__name__


def definition(value: Any) -> Any:
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(value)))).body[0]


def signature(name: str, function: ast.FunctionDef) -> str:
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"{name}({ast.unparse(function.args)}){returns}"


def class_lines(path: str, value: type, listed: set[Any]) -> Iterator[str]:
    """Yield a class with its fields, methods and properties; inherited ones unless the base class is listed itself."""
    bases = [base for base in value.__mro__[1:] if base in listed][:1]
    yield path + "".join(f"({base.__name__})" for base in bases)
    hidden = {inherited for base in bases for inherited in base.__mro__}
    seen: set[str] = set()
    for base in value.__mro__:
        if base.__module__.startswith("glassformer") and base not in hidden:
            for name, line in map(member, definition(base).body):
                if line and name not in seen and (not name.startswith("_") or name in DUNDERS):
                    seen.add(name)
                    yield f"    {line}"


def member(statement: ast.stmt) -> tuple[str, str]:
    if isinstance(statement, ast.FunctionDef):
        decorators = {ast.unparse(one) for one in statement.decorator_list}
        if decorators & {"property", "cached_property", "functools.cached_property"}:
            return statement.name, f"{statement.name}: {ast.unparse(statement.returns or ast.Constant(None))}"
        return statement.name, signature(statement.name, statement)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id, ast.unparse(statement)
    return "", ""


def command_lines() -> Iterator[str]:
    """Yield every command, with one line per argument and option."""
    import typer

    from glassformer.cli import command_line

    yield from group_lines("glassformer", typer.main.get_command(command_line()))


def group_lines(name: str, command: Any) -> Iterator[str]:
    if hasattr(command, "commands"):
        for sub, one in command.commands.items():
            yield from group_lines(f"{name} {sub}", one)
        return
    yield name
    for parameter in command.params:
        if parameter.name != "help" and not getattr(parameter, "hidden", False):
            is_option = parameter.param_type_name == "option"
            text = command_page.names(parameter) if is_option else command_page.metavar(parameter)
            yield f"    {text}{' (required)' if parameter.required else ''}"


def http_lines() -> Iterator[str]:
    """Yield every address of the service with its methods, parameters, and the fields of its request and response."""
    from glassformer.serving.app import application
    from glassformer.serving.options import ServeOptions
    from glassformer.serving.pool import Pool

    schema = application(Pool({}, workers=1), ServeOptions()).app.openapi()  # type: ignore[attr-defined]
    for path, operations in sorted(schema["paths"].items()):
        for method, operation in sorted(operations.items()):
            names = [parameter["name"] for parameter in operation.get("parameters", ())]
            names += body_fields(operation, schema)
            yield f"{method.upper()} {path}" + (f" ({', '.join(dict.fromkeys(names))})" if names else "")
            returned = operation["responses"].get("200", {}).get("content", {}).get("application/json", {})
            yield from sorted(f"    {field}" for field in set(fields(returned.get("schema", {}), schema)))


def body_fields(operation: dict[str, Any], schema: dict[str, Any]) -> Iterator[str]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from resolved(content["schema"], schema).get("properties", ())


def fields(described: dict[str, Any], schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """Yield the path of every field of a JSON value; `[]` is an element of an array."""
    described = resolved(described, schema)
    for name, value in described.get("properties", {}).items():
        yield f"{path}.{name}".removeprefix(".")
        yield from fields(value, schema, f"{path}.{name}")
    if "items" in described:
        yield from fields(described["items"], schema, f"{path}[]")
    for one in (*described.get("anyOf", ()), *described.get("oneOf", ())):
        yield from fields(one, schema, path)


def resolved(described: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    if reference := described.get("$ref"):
        return schema["components"]["schemas"][reference.rpartition("/")[2]]
    return described


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
