"""Compile the native engine when the package is installed. Everything else is in pyproject.toml.

Without a C compiler the package is installed without the engine, and everything runs in PyTorch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent / "glassformer" / "engine"))
import build  # needs the standard library alone


class BuildEngine(build_ext):
    """Build the shared library, which is loaded by ctypes and is no Python module."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")[:-1]) / build.library_name())

    def build_extension(self, ext: Extension) -> None:
        try:
            build.compile_library(Path(self.get_ext_fullpath(ext.name)))
        except build.CompilerError as error:  # setuptools prints it and goes on, as the extension is optional
            self.warn(f"the native engine is not built: {error}")

    def copy_extensions_to_source(self) -> None:
        """Copy the library into the source tree (editable installation), if it was built."""
        for extension in self.extensions:
            built = Path(self.build_lib) / self.get_ext_filename(self.get_ext_fullname(extension.name))
            if built.exists():
                self.copy_file(str(built), str(Path("glassformer") / "engine" / built.name))


setup(
    ext_modules=[Extension("glassformer.engine.library", sources=[], optional=True)],
    cmdclass={"build_ext": BuildEngine},
)
