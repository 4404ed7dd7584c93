"""Imports point downwards. The order is that of the architecture, and has no exceptions.

An import inside a function (a lazy import) points downwards too: it is for packages that would slow start-up. Only the
thin methods of predictors, such as `predictor.trace`, import upwards: they contain nothing but the import and a call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "glassformer"

# From the bottom up. A package may import packages of the lines above its own, and those of its own line that come
# before it. The binding of the native library is further down than the rest of its package: layers use it, too.
ORDER = [
    "errors", "limits", "operating_system", "files", "machine", "web_requests", "settings",
    "engine.build", "engine.library",
    "reference", "nn",
    "text", "phrasebook", "data",
    "models", "decoding",
    "engine", "inference",
    "planning", "tasks",
    "training",
    "glass",
    "interop", "lab", "lessons", "studio", "serving",
    "cli",
]  # fmt: skip
# Packages that must not know each other although the order would allow it.
SEPARATE = {
    "nn": {"settings"},
    "decoding": {"models", "text", "data", "nn", "settings"},
    "models": {"data", "phrasebook"},
}


def layer_of(module: str) -> str:
    """The entry of ORDER for a module, named without `glassformer.`: itself, or else its package."""
    first_two = ".".join(module.split(".")[:2])
    return first_two if first_two in ORDER else module.split(".")[0]


def package_of(path: Path) -> str:
    return layer_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))


def files() -> list[Path]:
    return [path for path in PACKAGE.rglob("*.py") if package_of(path) not in ("__init__", "__main__")]


def module_level(node: ast.AST) -> Iterator[ast.AST]:
    """The statements that run on import: those of functions do not, nor those for type checkers alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            continue
        yield child
        yield from module_level(child)


def imported_packages(nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "glassformer":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("glassformer."):
            module = str(node.module).removeprefix("glassformer.")
            found |= {layer_of(f"{module}.{alias.name}") for alias in node.names}
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("glassformer.")]
            found |= {layer_of(name.removeprefix("glassformer.")) for name in names}
    return found - {"__version__"}


def imports() -> list[tuple[Path, str, str]]:
    return [
        (path, package_of(path), other)
        for path in files()
        for other in imported_packages(module_level(ast.parse(path.read_text(encoding="utf-8"))))
    ]


def points_upwards(one: str, other: str) -> bool:
    return ORDER.index(other) > ORDER.index(one)


def upward_lazy_imports() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """Every function that imports a package above its own, and that package."""
    for path in files():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for other in imported_packages(ast.walk(node)):
                    if points_upwards(package_of(path), other):
                        yield path, node, other


def is_thin(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a method contains a docstring, one import and the return of one call, and nothing else."""
    match function.body:
        case [ast.Expr(value=ast.Constant()), ast.ImportFrom(), ast.Return(value=ast.Call())]:
            return True
    return False


def test_every_package_is_in_the_order() -> None:
    assert {package_of(path) for path in files()} <= set(ORDER)


def test_imports_point_downwards() -> None:
    assert [f"{path}: {one} imports {other}" for path, one, other in imports() if points_upwards(one, other)] == []


def test_only_thin_methods_of_predictors_import_upwards() -> None:
    found = list(upward_lazy_imports())
    assert {(package_of(path), other) for path, _, other in found} == {("inference", "glass")}
    assert [f"{path}: {function.name}" for path, function, _ in found if not is_thin(function)] == []


def test_separate_packages_do_not_import_each_other() -> None:
    assert [f"{path}: {one} imports {other}" for path, one, other in imports() if other in SEPARATE.get(one, ())] == []


def test_only_the_command_line_prints() -> None:
    printing = [
        str(path)
        for path in PACKAGE.rglob("*.py")
        if package_of(path) != "cli"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []
